"""Figures: how many of the wrong inputs that were agreed on are answered as they should be."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from ledger import Row

ROOT = Path(__file__).parents[2]
WHERE = ("tests/parties/bad_input", "tests/protocol/test_expiry.py")
# What is put in -> the tests that hold the answer; a case holds when all of them pass.
CONFIG = {
    "no file": "missing_file_is_refused folder_in_its_place unreadable_file_is_refused",
    "no text": "bytes_that_are_no_text_are_refused byte_order_mark_is_accepted",
    "bad syntax": "bad_syntax_is_refused_with_line_and_column",
    "a key twice": "what_stands_twice_is_refused_with_both_lines",
    "an unknown key": "unknown_key_is_refused_with_the_nearest",
    "a wrong type": "wrong_type_is_refused_without_a_cast",
    "out of range": "number_out_of_range_is_refused batch_of_more_rows_than_there_are",
    "tricks of other formats": "bombs_are_refused_in_bounds other_formats_are_refused",
    "no federation": "parties_that_are_no_federation own_name_that_is_no_party",
    "another width": "cut_dimension_that_differs_is_refused_over_the_wire",
    "another agreement": "agreement_that_differs_in_one_setting there_are_thirty_variants",
    "another version": "protocol_of_another_version_is_refused_with_both_ranges",
    "no address": "address_that_is_none_is_refused_in_the_settings "
    "address_that_is_none_is_refused_on",
    "a secret": "secret_in_the_config_is_refused_and_not_repeated",
    "privacy settings": "differential_privacy_is_refused_with_the_honest_reason",
    "encryption settings": "homomorphic_encryption_is_refused_with_the_honest_reason",
}
DATA = {
    "an empty file": "file_without_records",
    "ID column absent or twice": "id_column_that_is_absent_or_there_twice",
    "duplicate IDs": "duplicate_ids_unless_the_settings_say_which_to_keep",
    "empty IDs": "empty_ids",
    "two forms of one ID": "two_forms_of_one_id",
    "IDs that spreadsheets damage": "ids_that_spreadsheets_damage_stay_text_and_apart",
    "ragged rows and quotes": "ragged_rows_and_wrong_quotes",
    "marks of absent values": "marks_of_absent_values_that_the_settings_do_not_name",
    "text for a number": "text_in_a_numeric_column",
    "columns without a value": "column_without_any_value columns_that_are_all_constant",
    "numbers too large": "numbers_that_overflow_and_those_that_only_look_odd",
    "no label, one class": "labels_that_are_absent_or_no_class labels_of_one_class_only",
    "labels at a passive party": "labels_at_a_passive_party",
    "other columns than agreed": "other_columns_than_agreed",
    "too much of it": "more_columns_or_rows_than_the_settings_allow file_of_five_gigabytes",
    "a line without end": "line_without_end_is_not_read_to_its_end",
    "packed files": "packed_files_are_named_and_not_unpacked",
    "no regular file": "what_is_no_regular_file_of_the_data_folder",
    "a file that changes": "file_that_changes_while_it_is_read checkpoints_of_other_data",
    "too few common rows": "too_few_common_rows intersections_that_differ_by_few_rows",
}
CERTIFICATES = {
    "expired, not yet valid": "expired_is_refused_with_dates not_yet_valid_is_refused",
    "ends soon": "certificate_that_ends_soon_is_warned_of strict_settings_refuse",
    "ends during the run": "certificate_that_ends_during_a_run_ends_the_line",
    "another authority": "certificate_of_another_authority visitor_of_another_authority",
    "another party's": "other_party_in_the_place_of_the_hub twelve_refused_visitors",
    "wrong names": "own_certificate_that_breaks_a_rule_is_refused_at_once",
    "the authority's own": "the_authority_s_own_certificate_is_no_party_s",
    "another key": "key_of_another_certificate_is_refused",
    "a key open to others": "key_file_open_to_others key_file_of_another_user",
    "weak keys": "weak_or_unusual_key certificate_signed_with_sha_1 weak_authority",
    "not the pinned key": "other_key_than_pinned_is_refused_with_both",
    "a revoked key": "revoked_key_is_refused key_denied_while_the_hub_runs",
    "older or no TLS": "older_and_unencrypted_dialling_is_refused_and_the_hub_lives",
    "clocks apart": "clocks_too_far_apart_are_refused_at_both_with_the_distance",
}
COMMANDS = {
    "no such command": "no_command_is_refused unknown_command_is_refused unknown_flag_is_refused",
    "no such role": "missing_role misspelt_role role_that_is_not_the_agreement_s",
    "a flag of another role": "flag_that_does_not_fit_the_role_is_refused",
    "flag against config": "flag_for_what_all_share local_flag_wins_over_the_settings",
    "a flag twice": "one_flag_with_two_values_is_refused",
    "no TLS": "no_flag_turns_tls_off",
    "bad numbers": "bad_number_is_refused threads_out_of_range",
    "a secret": "secret_on_the_command_line secret_as_a_setting",
    "nothing, or another run, to go on from": "going_on_without_a_checkpoint "
    "checkpoints_of_another_agreement",
    "no place to write": "output_that_is_a_file output_that_cannot_be_written "
    "output_inside_the_data output_that_climbs",
    "odd surroundings": "bare_environment alphabet_of_the_terminal proxy_of_the_environment "
    "variable_that_writes_down_keys",
    "another seed": "seed_of_one_s_own_is_refused_with_what_it_promises",
}


def bad_input(tell: Callable[[str], None]) -> Iterator[Row]:
    """Run the tests and count the cases all of whose tests passed."""
    tell("bad input")
    passed, failed = _outcomes()
    for group in (CONFIG, DATA, CERTIFICATES, COMMANDS):
        for case, tests in group.items():
            for test in tests.split():
                if not any(name.startswith(f"test_{test}") for name in passed):
                    raise LookupError(f"no test {test!r} of {case!r} passed")
    cases = [tests.split() for group in _groups() for tests in group.values()]
    held = sum(not any(_is(name, tests) for name in failed) for tests in cases)
    title = "bad input: cases of config, data, certificates and commands answered as specified"
    yield Row(title, held, "", str(len(cases)), held == len(cases) == 62)


def _groups() -> tuple[dict[str, str], ...]:
    return CONFIG, DATA, CERTIFICATES, COMMANDS


def _is(name: str, tests: list[str]) -> bool:
    return any(name.startswith(f"test_{test}") for test in tests)


def _outcomes() -> tuple[set[str], set[str]]:
    """Names of the tests that passed, and of those that did not."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "junit.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={path}", *WHERE],
            cwd=ROOT, stdout=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        cases = list(ElementTree.parse(path).iter("testcase"))
    bad = {each.attrib["name"] for each in cases if len(each)}
    return {each.attrib["name"] for each in cases} - bad, bad
