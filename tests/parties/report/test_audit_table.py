"""The audits on the page and on the terminal: few at once, all of them somewhere, none unnamed."""

from sample_metrics import sample

from parties.report.audit_sentences import audit_sentences
from parties.report.audit_table import HEADLINES, TITLES, audit_table, title
from parties.report.page import page


def test_headlines_are_few_and_the_rest_is_folded() -> None:
    found = audit_table(sample()["requests"][0])
    assert [line.title for line in found.headlines] == [
        "accuracy, test rows",
        "loss, forgotten rows",
        "membership attack, AUC",
        "JS divergence, forgotten rows",
    ]
    assert [line.title for line in found.others] == [
        "both halves, seen by left",
        "the same, p-value",
        "accuracy, forgotten rows, with left’s half of the original put back",
        "membership attack, AUC, with left’s half of the original put back",
        "distance of left’s parameters from the paired Retrain’s",
        "steps to learn the forgotten rows again",
    ]
    assert set(HEADLINES) - {"js_forgotten"} <= set(TITLES)


def test_a_line_stands_beside_retrain_and_the_original() -> None:
    line = audit_table(sample()["requests"][0]).headlines[2]
    assert (line.value, line.retrain, line.gap, line.original) == (
        "0.600", "0.500 ± 0.050", "+2.0", "0.900",
    )  # fmt: skip


def test_every_line_has_its_retrain_its_n_and_its_status() -> None:
    found = audit_table(sample()["requests"][0])
    for line in (*found.headlines, *found.others):
        assert line.retrain, line.title
        assert line.rows, line.title
        assert line.status == ("not run" if line.value == "not run" else "ok"), line.title
    head = page(sample()).split("What the audits measured")[1].split("<tbody>")[0]
    assert '<th scope="col">status</th>' in head


def test_too_few_rows_are_a_status() -> None:
    request = sample()["requests"][0]
    request["figures"]["fedora"][2]["status"] = "insufficient_n"
    assert audit_table(request).headlines[2].status == "too few rows"


def test_a_small_spread_is_seen() -> None:
    request = sample()["requests"][0]
    request["figures"]["fedora"][3] |= {
        "value": 0.00312,
        "retrain_mean": 0.0027,
        "retrain_sd": 9e-5,
    }
    line = audit_table(request).headlines[3]
    assert (line.value, line.retrain) == ("0.00312", "0.00270 ± 0.00009")


def test_steps_of_relearning_stand_beside_those_of_retrain() -> None:
    line = audit_table(sample()["requests"][0]).others[-1]
    assert (line.value, line.retrain, line.gap, line.rows) == ("3.0", "12.0 ± 2.0", "−4.5", "3")


def test_what_was_not_run_says_so_and_why() -> None:
    line = audit_table(sample()["requests"][0]).others[1]
    assert line.value == "not run"
    assert "classifier_permutations" in line.note


def test_families_of_figures_have_titles() -> None:
    assert title("kl_retained") == "KL divergence, remaining rows"
    assert title("view_auc_my-shop") == "both halves, seen by my-shop"


def test_request_without_audits_shows_none() -> None:
    request = sample()["requests"][0] | {"figures": {}, "audits": None}
    assert audit_table(request).headlines == []
    assert audit_sentences(request) == []


def test_sentences_say_what_was_found() -> None:
    request = sample()["requests"][0]
    told = audit_sentences(request)
    assert told[-1] == "After the purge no party finds a forgotten row in its memory or its files."
    request["audits"] |= {"completeness": {}, "relearn": None}
    assert audit_sentences(request)[:2] == [
        "Completeness of parties: not run.",
        "Relearn time: not run.",
    ]
    request["remains"]["left"] = ["row map"]
    assert audit_sentences(request)[-1].endswith("left still finds forgotten rows in: row map.")


def test_an_invalid_backdoor_is_said() -> None:
    request = sample()["requests"][0]
    request["audits"]["backdoor"] = {"original_success": 0.5, "status": "invalid"}
    assert audit_sentences(request)[0].endswith("only: the audit is invalid.")


def test_the_page_folds_the_rest_away() -> None:
    shown = page(sample())
    head, _, folded = shown.partition("<details>")
    assert "membership attack, AUC" in head
    assert "both halves, seen by left" in folded
