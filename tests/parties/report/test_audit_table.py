"""Tests of the audit results on the page: headlines, other figures, and sentences."""

from typing import Any

from sample_metrics import sample

from parties.report.audits import HEADLINES, TITLES, audit_sentences, audit_table, figure_title
from parties.report.pages.scientist import report_page
from parties.report.record import Request, read_record


def request_of(metrics: dict[str, Any]) -> Request:
    return read_record(metrics).requests[0]


def test_headlines_come_before_all_other_metrics() -> None:
    audits = audit_table(request_of(sample()))
    assert [line.title for line in audits.headlines] == [
        "accuracy, test rows",
        "loss, forgotten rows",
        "membership attack, AUC",
        "JS divergence, forgotten rows",
    ]
    assert [line.title for line in audits.others] == [
        "update attack on the embeddings of left",
        "classifier two-sample test, p-value",
        "accuracy, forgotten rows, with left’s original local model",
        "membership attack, AUC, with left’s original local model",
        "distance of left’s parameters from the paired Retrain’s",
        "steps to relearn the forgotten rows",
    ]
    assert set(HEADLINES) - {"js_forgotten", "rms_forgotten"} <= set(TITLES)


def test_line_shows_retrain_and_the_original() -> None:
    line = audit_table(request_of(sample())).headlines[2]
    assert (line.value, line.retrain, line.gap, line.original) == (
        "0.600", "0.500 ± 0.050", "+2.0", "0.900",
    )  # fmt: skip


def test_every_line_shows_retrain_n_and_status() -> None:
    audits = audit_table(request_of(sample()))
    for line in (*audits.headlines, *audits.others):
        assert line.retrain, line.title
        assert line.rows, line.title
        assert line.status == ("not run" if line.value == "not run" else "ok"), line.title
    head = report_page(sample()).split("Audit results")[1].split("<tbody>")[0]
    assert '<th scope="col">status</th>' in head


def test_too_few_rows_are_a_status() -> None:
    request = sample()["requests"][0]
    request["methods"][1]["figures"][2]["status"] = "insufficient_n"
    assert audit_table(Request(**request)).headlines[2].status == "too few rows"


def test_a_small_spread_is_shown_with_more_decimals() -> None:
    request = sample()["requests"][0]
    request["methods"][1]["figures"][3] |= {
        "value": 0.00312,
        "retrain_mean": 0.0027,
        "retrain_sd": 9e-5,
    }
    line = audit_table(Request(**request)).headlines[3]
    assert (line.value, line.retrain) == ("0.00312", "0.00270 ± 0.00009")


def test_relearning_steps_are_shown_beside_retrain() -> None:
    line = audit_table(request_of(sample())).others[-1]
    assert (line.value, line.retrain, line.gap, line.rows) == ("3.0", "12.0 ± 2.0", "−4.5", "3")


def test_metric_that_was_not_run_shows_the_reason() -> None:
    line = audit_table(request_of(sample())).others[1]
    assert line.value == "not run"
    assert "classifier_permutations" in line.note


def test_groups_of_metrics_have_titles() -> None:
    assert figure_title("kl_retained") == "KL divergence, remaining rows"
    assert figure_title("view_auc_my-shop") == "update attack on the embeddings of my-shop"


def test_request_without_audits_shows_none() -> None:
    request = sample()["requests"][0] | {"audits": None}
    assert audit_table(Request(**request)).headlines == []
    assert audit_sentences(Request(**request)) == []


def test_sentences_report_the_audits() -> None:
    request = sample()["requests"][0]
    sentences = audit_sentences(Request(**request))
    assert (
        sentences[-1] == "After the purge no party has a forgotten row in its memory or its files."
    )
    request["audits"] |= {"completeness": {}, "relearn": None}
    assert audit_sentences(Request(**request))[:2] == [
        "Completeness by party: not run.",
        "Relearning: not run.",
    ]
    request["remains"]["left"] = ["row map"]
    assert audit_sentences(Request(**request))[-1].endswith(
        "left still has forgotten rows in: row map."
    )


def test_an_invalid_backdoor_audit_is_reported() -> None:
    request = sample()["requests"][0]
    request["audits"]["backdoor"] = {"original_success": 0.5, "status": "invalid"}
    assert audit_sentences(Request(**request))[0].endswith("only: the audit is invalid.")


def test_scaled_logits_are_named() -> None:
    request = sample()["requests"][0]
    assert not any("Calibration" in each for each in audit_sentences(Request(**request)))
    request["methods"][1]["details"] = {"calibration": 1.0712}
    request["methods"][2]["details"] = {"calibration": None}
    sentence = audit_sentences(Request(**request))[0]
    assert sentence.startswith(
        "Calibration: these logits are multiplied as part of the method: FedORA’s by 1.07 (median"
    )
    assert sentence.endswith("of all other methods and of the Retrains are not scaled.")


def test_page_folds_the_other_metrics() -> None:
    shown = report_page(sample())
    head, _, folded = shown.partition("Audit results")[2].partition("<details>")
    assert "membership attack, AUC" in head
    assert "update attack on the embeddings of left" in folded
