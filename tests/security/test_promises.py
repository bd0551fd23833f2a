"""What docs/security.md promises, each sentence bound to the tests that break with it."""

import re
from collections.abc import Iterator
from pathlib import Path

from nanobot.security.policy import KINDS

ROOT = Path(__file__).parents[2]
ROLES, POLICY, WRAPPING = "agent/test_roles.py", "security/test_policy.py", "agent/test_wrapping.py"
CLIENT, PRIVATE, TIERS = (
    "web/fetch/test_guarded_client.py",
    "web/fetch/test_private_hosts.py",
    "web/fetch/test_tiers.py",
)
HOSTILE, NETWORK, WORKER = (
    "web/fetch/test_hostile_content.py",
    "security/test_network.py",
    "web/fetch/test_extract_worker.py",
)
GATEWAY, ACCESS, INTAKE = (f"channels/telegram/test_{name}.py" for name in ("gateway", "access", "intake"))
QUESTIONS, MEDIA, RIGHTS = (f"channels/telegram/test_{name}.py" for name in ("questions", "media", "rights_live"))
TAINT, INJECTION, SANDBOX = "agent/test_taint.py", "agent/test_injection.py", "security/test_sandbox.py"
ONESHOT, LOGS, VARIABLES = "cli/test_oneshot_process.py", "utils/test_logs.py", "config/test_variables.py"
LISTED, BRIDGE = "web/fetch/test_listed_hosts.py", "web/test_host_proxy.py"
PROJECTS, LOGINS = "cli/test_project_folders.py", "agent/tools/test_mcp_login.py"
KEYS = "agent/tools/test_key_files.py"
MCP_WORDS = ("agent/test_mcp_trust.py", "test_what_was_read_and_let_count_taints_no_more_and_a_word_that_changes_does")
EXEC, UNDONE = "agent/tools/test_exec.py", "test_U4_whatever_a_command_destroys_one_undo_takes_all_of_it_back"
KILLED = "test_U73_what_a_command_made_to_steer_is_taken_back_by_the_next_start"
APPROVED = "test_U30_a_command_in_the_background_leaves_what_the_owner_has_approved"
CONFINED = (
    (SANDBOX, "test_a_command_that_destroys_changes_nothing"),
    (SANDBOX, "test_a_command_that_spies_reads_nothing"),
)
SANDBOX_ROWS = (
    *("files", "other processes", "network", "modes, owners, times", "what is hidden inside a root", "`/tmp`"),
)
_ROWS = re.compile(r"^test_(?:[A-Z]+\d+_)*")
#: The beginning of a sentence or a row → the tests, each by its file and the beginning of its name.
PROMISES: dict[str, tuple[tuple[str, str], ...]] = {
    "`web_fetch` reads pages through": ((CLIENT, "test_a_private_address_is_not_connected_to"),),
    "Only `http` and `https`": (("web/fetch/test_web_fetch_tool.py", "test_K03_A13_G07_only_http_and_https_are_read"),),
    "Every host is resolved": ((CLIENT, "test_a_name_is_looked_up_once_and_the_judged_address_is_used"),),
    "Behind a proxy": (
        (CLIENT, "test_with_a_proxy_the_target_is_judged_here_first"),
        (CLIENT, "test_behind_a_proxy_a_name_that_is_unknown_here"),
    ),
    "Each redirect is judged": ((CLIENT, "test_K30_every_hop_of_a_redirect_is_judged"),),
    "Private, loopback, link-local": ((NETWORK, "test_M3_special_addresses_are_refused_in_every_form"),),
    "Metadata services": ((NETWORK, "test_metadata_stays_closed_until_it_is_named_exactly"),),
    "To let the agent read a device": ((NETWORK, "test_the_operator_opens_nets_names"),),
    "`tools.web.fetch.allowPrivate` is": ((PRIVATE, "test_G27_private_hosts_are_refused_by_default"),),
    "`allow` opens home": (
        (PRIVATE, "test_G27_private_hosts_are_refused_by_default"),
        (PRIVATE, "test_G24_always_for_a_host_leaves"),
    ),
    "One call asks once": (
        (PRIVATE, "test_W11_one_call_asks_once"),
        (QUESTIONS, "test_G27_A21_a_private_page_is_read_after_the_owner_taps_once"),
    ),
    "A name that the model made up": ((ROLES, "test_a_made_up_name_that_leads_into_the_own_network"),),
    "Consent opens the host": (
        (PRIVATE, "test_consent_for_one_host_does_not_reach"),
        (PRIVATE, "test_the_yes_is_for_the_address_that_was_shown"),
        (PRIVATE, "test_C2_loopback_link_local_and_metadata"),
    ),
    "Where nobody can be asked, `ask`": ((PRIVATE, "test_G27_C2_the_owner_is_asked"),),
    "Questions go to an owner alone": (
        ("agent/test_approvals.py", "test_nobody_is_asked_where_no_owner_can_answer"),
        (QUESTIONS, "test_a_group_reads_only_that_something_waits"),
    ),
    "They show what exactly would": (
        (PRIVATE, "test_the_question_shows_reason_host"),
        ("agent/test_approvals.py", "test_the_owner_is_asked_and_the_answer_reaches"),
        (ROLES, "test_what_a_model_wrote_adds_no_line_to_a_question"),
    ),
    "An answer is for that very call": (
        (POLICY, "test_an_answer_is_for_what_was_asked_and_lifts_no_denial"),
        (PRIVATE, "test_the_yes_is_for_the_address_that_was_shown"),
    ),
    "`always` is kept until": (
        (POLICY, "test_a_lasting_yes_is_for_what_was_shown"),
        (POLICY, "test_a_lasting_yes_to_a_command_is_none"),
    ),
    "An allowed private address": (
        (TIERS, "test_G08_G26_C2_private_hosts_are_reached_directly_and_public_ones_through_the_proxy"),
    ),
    "A download ends": (
        (HOSTILE, "test_K26_G33_an_endless_body_is_kept_to_the_limit"),
        (HOSTILE, "test_K26_a_compressed_bomb_is_inflated"),
        (HOSTILE, "test_K26_a_drip_ends_at_the_deadline"),
    ),
    "A server that sends more than 65 kB": ((CLIENT, "test_a_server_that_floods_before_its_answer"),),
    "No cookie is kept": ((CLIENT, "test_no_answer_sets_a_cookie"),),
    "Addresses that you set yourself": (
        (CLIENT, "test_trusted_endpoints_are_reached"),
        (CLIENT, "test_a_private_address_is_not_connected_to"),
    ),
    "Search results and pages are": (
        (WRAPPING, "test_nothing_that_a_web_server_says"),
        (WRAPPING, "test_nothing_that_a_search_service_says"),
    ),
    "They reach the model between marks": (
        ("security/test_trust.py", "test_a_fake_end_mark_stays_inside"),
        ("utils/test_prompt_templates.py", "test_N13_N14_the_identity_carries_the_two_rules"),
    ),
    "So do quoted and forwarded": (
        (INTAKE, "test_a_reply_brings_the_quoted_text_as_context"),
        (INTAKE, "test_a_forward_is_context_and_never_a_command"),
        (INTAKE, "test_no_name_that_somebody_chose_reaches_the_model"),
        (MEDIA, "test_a_document_of_text_comes_along_as_text_from_outside"),
    ),
    "A forwarded message is never": ((ACCESS, "test_a_forwarded_command_commands_nothing"),),
    "Control characters are removed": (
        (ONESHOT, "test_text_from_the_web_cannot_drive_the_terminal"),
        (ONESHOT, "test_nothing_of_a_file_an_argument_or_a_model_s_name"),
    ),
    "Pages and files are taken apart": (
        (WORKER, "test_the_worker_reaches_no_file_no_network"),
        (WORKER, "test_G31_a_worker_that_takes_too_long_is_replaced"),
        (HOSTILE, "test_a_hostile_body_is_read_in_bounds"),
    ),
    "Whatever a server chose": ((WRAPPING, "test_nothing_that_a_web_server_says"),),
    "So every call is judged by code": (
        (ROLES, "test_A01_A21_no_call_runs_without_a_verdict_that_allows_this_very_call"),
        (ROLES, "test_A01_A21_only_the_registry_calls_a_tool_and_only_the_policy_makes_verdicts_that_allow"),
    ),
    "The judge looks at": (
        (POLICY, "test_what_it_does_who_speaks_and_what_was_read_decide"),
        (ROLES, "test_the_owner_is_asked_for_what_may_change_something"),
    ),
    "This is its table": ((POLICY, "test_the_table_of_the_page_about_security_is_that_of_the_judge"),),
    "The first column counts": ((POLICY, "test_what_holds_content_from_outside_is_asked_in_every_preset"),),
    "The second column counts": ((POLICY, "test_what_holds_content_from_outside_is_asked_in_every_preset"),),
    "Content from outside is": (
        (WRAPPING, "test_nothing_that_a_web_server_says"),
        (WRAPPING, "test_what_an_mcp_server_says_of_its_tools"),
        (TAINT, "test_a_sent_picture_and_a_description_of_a_stranger_taint"),
        (INJECTION, "test_nothing_that_it_reads_makes_the_agent_act_against_its_owner"),
        ("agent/test_native_pages.py", "test_the_service_reads_public_pages"),
    ),
    "It counts as long as": ((INJECTION, "test_nothing_that_it_reads_makes_the_agent_act_against_its_owner"),),
    "A file that is written meanwhile": (
        (INJECTION, "test_nothing_that_it_reads_makes_the_agent_act_against_its_owner"),
    ),
    **dict.fromkeys(
        (
            "Where you name another workspace",
            "Before it, and after a no",
            "One question on the command",
            "`/permissions` shows",
        ),
        ((PROJECTS, "test_a_workspace_that_is_a_project_counts_after_one_question"),),
    ),
    "After a yes these join": ((PROJECTS, "test_the_instructions_of_the_folder_where_a_person_works"),),
    "Your own workspace, in the home": ((PROJECTS, "test_a_folder_without_such_files_is_not_asked_about"),),
    "Logins at MCP servers stand": ((LOGINS, "test_a_login_in_the_browser_is_kept_and_renewed"),),
    "A server that sends a login elsewhere": ((LOGINS, "test_a_server_that_sends_logins_into_the_own_network"),),
    "What the browser brings back": ((LOGINS, "test_elsewhere_the_address_is_pasted"),),
    "A command in whose reach": (
        ("agent/tools/test_exec.py", "test_a_script_from_outside_steers_nothing_in_a_later_conversation"),
        ("agent/tools/test_exec.py", "test_what_a_user_wrote_is_foreign_to_the_owner"),
        ("agent/tools/test_exec.py", "test_what_a_command_in_the_background_writes_is_foreign"),
    ),
    "`/trust` ends that": ((INJECTION, "test_a_note_that_the_owner_trusts_asks_nothing_any_more"),),
    "An address is named by": ((ROLES, "test_a_made_up_address_is_asked_for_by_its_host"),),
    "A made-up one is asked": ((ROLES, "test_a_made_up_address_is_asked_for_by_its_host"),),
    "The rules in `tools.policy": ((POLICY, "test_rules_of_the_owner_come_first"),),
    "Nothing lifts a": ((POLICY, "test_what_holds_content_from_outside_is_asked_in_every_preset"),),
    "A rule that allows counts": ((POLICY, "test_rules_of_the_owner_come_first"),),
    "It is never wider": ((POLICY, "test_a_rule_that_allows_is_never_wider"),),
    "Where nobody can be asked (": ((INJECTION, "test_where_nobody_can_be_asked_the_rule"),),
    "An earlier yes is none": ((POLICY, "test_what_nobody_can_be_asked_is_refused"),),
    "Users have what": ((POLICY, "test_what_it_does_who_speaks_and_what_was_read_decide"),),
    "What a tool returns holds": ((TAINT, "test_a_key_of_the_configuration_reaches"),),
    "In an answer or a message beside": (
        ("agent/tools/test_message.py", "test_beside_content_from_outside_a_message_holds_no_link"),
        ("agent/test_citations.py", "test_under_taint_an_address_that_nobody_gave"),
        ("agent/test_citations.py", "test_under_taint_no_spelling_makes_a_link"),
    ),
    "Telegram shows no preview": (("channels/telegram/test_outbox.py", "test_an_answer_is_sent_once"),),
    "`python -m benchmarks.injection`": ((INJECTION, "test_what_the_owner_consents_to_happens"),),
    "A call whose arguments hold": (
        (POLICY, "test_A21_a_known_secret_leaves_in_no_argument_however_it_is_written"),
        (POLICY, "test_a_known_secret_leaves_in_no_parts"),
    ),
    "What an MCP server says": ((WRAPPING, "test_what_an_mcp_server_says_of_its_tools"),),
    **{f"| {row.means} |": ((POLICY, "test_the_table_of_the_page_about_security"),) for row in KINDS.values()},
    "A command runs in a sandbox": ((SANDBOX, "test_a_command_that_destroys_changes_nothing"),),
    "What it is called in": ((SANDBOX, "test_a_command_that_destroys_changes_nothing"),),
    "| needs |": ((SANDBOX, "test_ordinary_work_goes_on_in_the_sandbox"),),
    **{f"| {row} |": CONFINED for row in SANDBOX_ROWS},
    "Neither is believed": CONFINED,
    "`auto` takes bubblewrap": ((SANDBOX, "test_ordinary_work_goes_on_in_the_sandbox"),),
    "What was asked for by name": ((SANDBOX, "test_what_was_asked_for_and_does_not_work"),),
    "In both, keys of the kernel": CONFINED,
    "Nothing that a command started": ((SANDBOX, "test_nothing_that_a_command_started_outlives_it"),),
    "It ends with nanobot too": (
        (SANDBOX, "test_a_command_ends_with_nanobot_even_where_that_is_killed"),
        (SANDBOX, "test_nothing_lives_on_at_whatever_moment_of_its_start_nanobot_is_killed"),
        (SANDBOX, "test_no_command_can_hold_on_to_the_lifeline"),
    ),
    "Without a sandbox (`tools": ((SANDBOX, "test_nothing_lives_on_at_whatever_moment_of_its_start"),),
    "Elsewhere than on Linux": (
        (SANDBOX, "test_without_a_sandbox_commands_run_on_every_unix_where_the_owner_says_so"),
        (SANDBOX, "test_processes_are_found_by_ps_where_there_is_no_proc"),
    ),
    "On Windows there are no commands": (
        (SANDBOX, "test_without_a_sandbox_commands_run_on_every_unix_where_the_owner_says_so"),
    ),
    "A turn has the rights": ((ROLES, "test_a_tool_runs_for_whom_it_is"),),
    "`USER.md` and": (
        (ROLES, "test_what_belongs_to_the_owner_is_in_no_prompt"),
        (RIGHTS, "test_owner_user_guest_and_anonymous_admin"),
    ),
    "A user has a folder of their own": (
        (ROLES, "test_each_person_has_a_memory_of_their_own"),
        (ROLES, "test_a_users_folder_is_no_way_to_the_memory"),
    ),
    "Guests and groups have none": ((ROLES, "test_each_person_has_a_memory_of_their_own"),),
    "What steers the agent, `SOUL": ((ROLES, "test_what_belongs_to_the_owner_is_in_no_prompt"),),
    "Guests have search, public": (
        (ROLES, "test_a_tool_runs_for_whom_it_is"),
        (RIGHTS, "test_owner_user_guest_and_anonymous_admin"),
        (RIGHTS, "test_everybody_whom_a_star_lets_in_is_a_guest"),
    ),
    "A user has besides a memory": (
        (ROLES, "test_a_user_has_what_the_owner_granted"),
        (RIGHTS, "test_owner_user_guest_and_anonymous_admin"),
    ),
    "A turn has what was granted": ((ROLES, "test_a_turn_may_do_the_least_of_what_was_granted"),),
    "In a group nobody has files": ((ROLES, "test_a_user_has_what_the_owner_granted"),),
    "`tools.web.fetch.deny` names": ((LISTED, "test_a_listed_host_counts_with_its_subdomains"),),
    "They are judged before anything": (
        (LISTED, "test_redirects_rewritten_addresses_and_pictures"),
        (LISTED, "test_page_text_of_a_denied_host"),
    ),
    "Nobody is asked about them": ((LISTED, "test_nobody_is_asked_about_a_host_that_is_denied"),),
    "Of the environment it gets": (("agent/tools/test_mcp_programs.py", "test_a_program_gets_no_secret_of_ours"),),
    "A command to which hosts": ((BRIDGE, "test_a_command_reaches_the_granted_host_and_nobody_else"),),
    "Where pages are read through a proxy": (
        (BRIDGE, "test_behind_a_proxy_for_the_web_granted_hosts_are_reached_through_it"),
        (BRIDGE, "test_a_proxy_for_the_web_that_does_not_work_is_said_so_and_never_gone_round"),
    ),
    "Private addresses stay closed": ((BRIDGE, "test_whatever_else_is_asked_for_is_refused"),),
    "Admins of a group": (
        (RIGHTS, "test_owner_user_guest_and_anonymous_admin"),
        (ACCESS, "test_an_entry_that_is_nobodys_id_makes_nobody_owner"),
    ),
    "Nobody speaks in the turn": (
        (ROLES, "test_nobody_speaks_in_the_turn"),
        (RIGHTS, "test_owner_user_guest_and_anonymous_admin"),
    ),
    "In a direct conversation it sees nothing": (
        (ROLES, "test_what_the_owner_says_in_a_users_session_from_elsewhere_is_not_told"),
    ),
    "In a group, a turn sees": ((ROLES, "test_a_guest_sees_of_the_owners_turn_in_a_group"),),
    "In a group, the owner alone": (
        ("command/test_commands.py", "test_in_a_group_only_the_owner_changes_what_all_share"),
        (ROLES, "test_a_turn_is_stopped_by_the_owner_or_by_who_asked"),
    ),
    "What guests said stands": ((ROLES, "test_what_a_guest_said_stands_in_the_owners_turn"),),
    "What the owner has allowed": (
        (POLICY, "test_a_lasting_yes_is_for_what_was_shown"),
        (RIGHTS, "test_owner_user_guest_and_anonymous_admin"),
    ),
    "On Telegram nobody": (
        (ACCESS, "test_an_unclaimed_bot_serves_nobody"),
        (ACCESS, "test_a_link_expires_and_a_new_one_voids"),
        (GATEWAY, "test_the_link_that_is_printed_makes_the_owner"),
    ),
    "Afterwards the owner": (
        (ACCESS, "test_the_owner_lets_people_in_by_their_code"),
        (ACCESS, "test_ids_of_the_configuration_may_talk_and_names_may_not"),
    ),
    "Every message, command and button": (
        (ACCESS, "test_every_command_is_open_to_the_roles"),
        ("channels/telegram/test_incoming.py", "test_nothing_is_fetched_for_a_stranger"),
    ),
    "Codes are kept as hashes": ((GATEWAY, "test_the_link_that_is_printed_makes_the_owner"),),
    "No port is opened": (
        (GATEWAY, "test_the_gateway_listens_nowhere"),
        (GATEWAY, "test_a_webhook_takes_updates_with_the_secret_word"),
    ),
    "The token of the bot stands": ((GATEWAY, "test_the_token_is_in_no_log"),),
    "The libraries' own lines": (
        (LOGS, "test_libraries_that_log_addresses_are_quiet"),
        (LOGS, "test_a_canary_takes_every_way_into_the_log"),
    ),
    "What nanobot writes is under": (
        ("config/test_places.py", "test_N05_everything_is_in_the_home_of_the_user"),
        ("config/test_places.py", "test_a_home_that_others_may_read_is_closed"),
        ("cli/test_web_process.py", "test_everything_in_the_home_is_its_owners_alone"),
        (GATEWAY, "test_the_gateway_listens_nowhere"),
    ),
    "What an older version left": (("config/test_places.py", "test_a_home_that_others_may_read_is_closed"),),
    "Elsewhere it writes": ((GATEWAY, "test_the_gateway_listens_nowhere"),),
    "There is no telemetry": ((GATEWAY, "test_the_gateway_listens_nowhere"),),
    "Keys come from": (
        (VARIABLES, "test_C10_N09_K21_a_variable_is_filled_in"),
        (VARIABLES, "test_K21_a_command_prints_the_key"),
    ),
    "They are never printed": (
        ("config/test_loader.py", "test_an_error_never_shows_a_secret"),
        (VARIABLES, "test_secrets_are_known_and_never_shown"),
        (LOGS, "test_a_canary_takes_every_way_into_the_log"),
    ),
    "A page cannot ask for them": ((GATEWAY, "test_the_gateway_listens_nowhere"),),
    "| the model's provider |": ((GATEWAY, "test_the_gateway_listens_nowhere"),),
    "| the search engine": (("web/search/test_search_chain.py", "test_in_privacy_mode_the_chosen_back_end_is_asked"),),
    "| the sites": (
        ("agent/test_web_dialogue.py", "test_N02_tools_that_are_switched_off"),
        (TIERS, "test_K08_without_a_service_the_page_is_read_here"),
    ),
    "| the remote reader": (
        (TIERS, "test_C3_only_pages_that_fail_the_gate_leave_this_machine"),
        (TIERS, "test_G08_C2_nobody_else_is_told"),
    ),
    "| a reading service": ((TIERS, "test_K08_without_a_service"), (TIERS, "test_G08_C2_nobody_else_is_told")),
    "| the model's provider as a reader": (("agent/test_native_pages.py", "test_G09_it_is_off_unless_switched_on"),),
    "| an MCP server": (("agent/tools/test_mcp.py", "test_A04_A09_a_server_that_is_not_enabled_gets_no_request"),),
    "Beside content from outside `grep`": (
        (KEYS, "test_grep_prints_no_line_of_them"),
        (KEYS, "test_a_command_in_a_sandbox_cannot_read_them"),
    ),
    "Dated notes (": (
        ("agent/tools/test_remember.py", "test_what_is_of_the_day_stands_in_the_note_of_the_day_and_not_in_the_prompt"),
        ("agent/tools/test_known.py", "test_people_see_and_forget_their_own_and_guests_and_groups_nothing"),
        ("agent/tools/test_recall.py", "test_what_one_person_said_is_never_found_by_another_a_group_or_a_guest"),
    ),
    "The skills of a trusted folder": (
        (
            "skills/test_skill_files.py",
            "test_the_first_of_a_name_counts_and_a_project_offers_nothing_before_it_is_trusted",
        ),
        ("agent/test_skills.py", "test_U30_a_skill_taints_until_the_owner_says_yes_to_its_content"),
    ),
    "The instructions in folders above it": (
        (PROJECTS, "test_instructions_are_read_from_the_top_of_the_repository_down"),
    ),
    "Of its `hooks`": ((PROJECTS, "test_a_workspace_that_is_a_project_counts_after_one_question"),),
    "An `always` that you gave": (
        (
            "agent/test_lasting_answers.py",
            "test_A21_always_allows_what_its_words_say_on_both_surfaces_and_nothing_else",
        ),
    ),
    "Lines on what is being done": (
        (ROLES, "test_a_group_reads_of_the_owners_calls_and_deeds_no_more_than_it_may_know"),
    ),
    "As long as you have not let these words": (MCP_WORDS,),
    "What a tool answers always is": (MCP_WORDS,),
    "`/undo` takes them back, those": (
        ("channels/test_obeying.py", "test_a_model_that_obeys_a_page_can_harm_nothing"),
        (EXEC, "test_U73_beside_content_from_outside_what_cannot_be_kept"),
    ),
    "Before a command runs, what": ((EXEC, UNDONE), (EXEC, "test_U73_beside_content_from_outside_what_cannot_be_kept")),
    "What it has changed, made": ((EXEC, UNDONE),),
    "Of a command in the background `/undo`": ((EXEC, "test_U30_of_a_command_in_the_background_what_is_gone"),),
    "`HOME` of a command is": ((EXEC, "test_a_command_sees_no_variable_that_was_not_named"), (EXEC, UNDONE)),
    "While a command runs in the background": ((EXEC, APPROVED),),
    "Where nanobot is killed meanwhile": ((EXEC, KILLED),),
    "What is taken away so": ((EXEC, KILLED),),
    "| Telegram": ((GATEWAY, "test_the_gateway_listens_nowhere"),),
    "| a transcription service": (
        ("channels/telegram/test_voice.py", "test_in_a_private_mode_chat_no_sound_leaves"),
        ("channels/telegram/test_voice.py", "test_the_way_is_chosen_by_command_endpoint_key"),
    ),
    "Neither reader is ever told": ((TIERS, "test_G08_C2_nobody_else_is_told"),),
    "Privacy mode, for all chats": (
        (TIERS, "test_G08_C2_nobody_else_is_told"),
        ("web/search/test_search_chain.py", "test_in_privacy_mode_the_remote_services_see_nothing"),
    ),
    "The result says who read": (
        ("web/fetch/test_reading_rows.py", "test_N40_G37_the_header_names_what_has_read_the_page"),
    ),
}
#: What asks something of people or says what nobody can test.
ADVICE = (
    "No marking makes a model immune.",
    "A project's instructions come from",
    # What the sandbox and the whole do not protect from.
    "What a sandbox does not protect",
    "Files in `/etc`",
    "A wrong answer: who writes",
    "Citations show where",
    "Under Landlock nothing new can be made then",
    "What you consent to",
    "Words that go where",
    "Changes of ordinary files",
    "Addresses without `https",
    "Programs that you start",
    "The provider of the model, which",
    "Connect only servers that you trust",
    "A reader elsewhere follows redirects",
    "It does not look into a tunnel",
    "See [Telegram]",
    "Tell the maintainers privately",
    "A fix comes with a test",
)


def statements(page: str) -> Iterator[str]:
    """Every sentence of every section, and every row of a table but its head."""
    for section in page.split("\n## ")[1:]:
        for block in re.split(r"\n(?=- |\|)|\n\n", section.partition("\n")[2]):
            text = " ".join(block.split())
            if text.startswith("|"):
                yield from () if text.startswith(("| to whom", "| what a call", "| | bubblewrap", "|--")) else (text,)
            elif text:
                yield from re.split(r"(?<=[.!?])\s+(?=[A-Z`])", text.removeprefix("- "))


def test_every_sentence_of_the_page_about_security_names_tests_that_exist() -> None:
    said = list(statements((ROOT / "docs" / "security.md").read_text(encoding="utf-8")))
    assert len(said) > 60
    unbound = [one for one in said if not one.startswith((*PROMISES, *ADVICE))]
    assert unbound == [], "a sentence without a test: write one, or take the sentence out"
    gone = [one for one in (*PROMISES, *ADVICE) if not any(other.startswith(one) for other in said)]
    assert gone == []


def test_every_test_that_is_named_exists_and_is_one() -> None:
    """The rows of the checklist that a name begins with may change."""
    for beginning, tests in PROMISES.items():
        for file, name in tests:
            words = _ROWS.sub("", name)
            code = (ROOT / "tests" / file).read_text(encoding="utf-8")
            found = [
                one for one in re.findall(r"(?m)^(?:async )?def (test_\w+)\(", code) if words in _ROWS.sub("", one)
            ]
            assert len(found) == 1, (beginning, file, name)
