"""Figures: how many of the specified wrong inputs are answered as specified."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from bench.ledger import Row

ROOT = Path(__file__).parents[2]
WHERE = ("tests/parties/bad_input", "tests/protocol/test_expiry.py")
# Wrong input -> the tests of its answer; a case passes if all of its tests pass.
CONFIG = {
    "no file": "missing_file_is_refused folder_in_place_of_a_config unreadable_file_is_refused",
    "no text": "bytes_that_are_not_utf8_are_refused_with_their_offset byte_order_mark_is_accepted",
    "bad syntax": "bad_syntax_is_refused_with_line_and_column",
    "a key twice": "duplicate_key_is_refused_with_both_lines",
    "an unknown key": "unknown_key_is_refused_with_the_nearest",
    "a wrong type": "wrong_type_is_refused_without_a_cast",
    "out of range": "number_out_of_range_is_refused batch_larger_than_the_data_is_refused",
    "tricks of other formats": "deeply_nested_or_large_config other_formats",
    "no federation": "invalid_set_of_parties unknown_own_name",
    "another width": "different_embedding_width_is_refused_over_the_wire",
    "another agreement": "difference_in_one_setting agreement_has_at_least_thirty_variants",
    "another version": "protocol_of_another_version_is_refused_with_both_ranges",
    "no address": "invalid_address_in_the_settings_is_refused "
    "invalid_address_on_the_command_line_is_refused",
    "a secret": "secret_in_the_config_is_refused_and_not_repeated",
    "privacy settings": "unsupported_differential_privacy_is_refused_with_the_reason",
    "encryption settings": "homomorphic_encryption_is_refused_with_the_reason",
}
DATA = {
    "an empty file": "file_without_records_is_refused",
    "ID column absent or twice": "missing_or_duplicate_id_column_is_refused",
    "duplicate IDs": "duplicate_ids_are_refused_unless_the_settings_select_one",
    "empty IDs": "empty_ids_are_refused",
    "two forms of one ID": "two_forms_of_one_id_are_refused",
    "IDs that spreadsheets damage": "ids_like_numbers_and_dates_stay_distinct_texts",
    "ragged rows and quotes": "ragged_rows_and_wrong_quotes_are_refused",
    "marks of absent values": "undeclared_missing_value_marks_are_refused",
    "text for a number": "text_in_a_numeric_column_is_refused",
    "columns without a value": "column_without_values all_constant_columns",
    "numbers too large": "overflowing_numbers_are_refused_and_unusual_forms_accepted",
    "no label, one class": "missing_or_unknown_labels labels_of_one_class_only",
    "labels at a passive party": "labels_at_a_passive_party_are_refused",
    "other columns than agreed": "columns_that_differ_from_the_agreement",
    "too much of it": "more_columns_or_rows_than_the_settings_allow file_of_five_gigabytes",
    "a line without end": "endless_line_is_not_read_completely",
    "packed files": "compressed_files_are_named_and_not_unpacked",
    "no regular file": "path_that_is_not_a_regular_file_of_the_data_folder_is_refused",
    "a file that changes": "file_changed_during_reading_is_refused checkpoints_of_other_data",
    "too few common rows": "too_few_common_rows intersections_that_differ_by_few_rows",
}
CERTIFICATES = {
    "expired, not yet valid": "expired_is_refused_with_dates not_yet_valid_is_refused",
    "ends soon": "certificate_that_expires_soon strict_settings",
    "ends during the run": "certificate_that_ends_during_a_run_ends_the_line",
    "another authority": "certificate_of_another_authority client_of_another_authority",
    "another party's": "other_party_in_place_of_the_hub twelve_refused_clients",
    "wrong names": "own_invalid_certificate_is_refused_at_the_start",
    "the authority's own": "the_authority_s_own_certificate_is_no_party_s",
    "another key": "key_of_another_certificate_is_refused",
    "a key open to others": "key_file_readable_by_others key_file_of_another_user",
    "weak keys": "weak_or_unusual_key certificate_signed_with_sha_1 weak_authority",
    "not the pinned key": "key_that_differs_from_the_pin_is_refused_with_both_and_a_hint",
    "a revoked key": "revoked_key_is_refused key_denied_during_a_run_is_refused_afterwards",
    "older or no TLS": "old_tls_and_plaintext_are_refused_and_the_hub_continues",
    "clocks apart": "large_clock_difference_is_refused_by_both_with_the_seconds",
}
COMMANDS = {
    "no such command": "no_command_is_refused unknown_command_is_refused unknown_flag_is_refused",
    "no such role": "missing_role misspelt_role role_outside_the_agreement_is_refused",
    "a flag of another role": "flag_that_does_not_fit_the_role_is_refused",
    "flag against config": "flag_for_a_shared_setting local_flag_wins_over_the_settings",
    "a flag twice": "one_flag_with_two_values_is_refused",
    "no TLS": "no_flag_turns_tls_off",
    "bad numbers": "bad_number_is_refused threads_out_of_range",
    "a secret": "secret_on_the_command_line secret_as_a_setting",
    "nothing, or another run, to go on from": "resume_without_a_checkpoint_is_refused "
    "checkpoints_of_another_agreement_are_refused_with_the_difference",
    "no place to write": "output_that_is_a_file output_that_cannot_be_written "
    "output_inside_the_data output_path_with_dots_is_refused_with_its_target",
    "odd surroundings": "empty_environment_without_home_or_terminal locale_and_hash_seed "
    "proxy_of_the_environment environment_variable_that_logs_keys_or_content",
    "another seed": "own_seed_is_refused_with_the_reason",
}


def bad_input(report: Callable[[str], None]) -> Iterator[Row]:
    """Run the tests and count the cases whose tests all passed."""
    report("bad input")
    passed, failed = outcomes(*WHERE)
    for group in (CONFIG, DATA, CERTIFICATES, COMMANDS):
        for case, tests in group.items():
            for test in tests.split():
                if not any(name.startswith(f"test_{test}") for name in passed):
                    raise LookupError(f"no test {test!r} of {case!r} passed")
    cases = [tests.split() for group in _groups() for tests in group.values()]
    answered = sum(not any(_belongs(name, tests) for name in failed) for tests in cases)
    title = "bad input: cases of config, data, certificates and commands answered as specified"
    yield Row(title, answered, "", str(len(cases)), answered == len(cases) == 62)


def _groups() -> tuple[dict[str, str], ...]:
    return CONFIG, DATA, CERTIFICATES, COMMANDS


def _belongs(name: str, tests: list[str]) -> bool:
    return any(name.startswith(f"test_{test}") for test in tests)


def outcomes(*where: str) -> tuple[set[str], set[str]]:
    """Run the tests in some files or folders; return the names of passed and of failed tests."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "junit.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={path}", *where],
            cwd=ROOT, stdout=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        cases = list(ElementTree.parse(path).iter("testcase"))
    bad = {each.attrib["name"] for each in cases if len(each)}
    return {each.attrib["name"] for each in cases} - bad, bad
