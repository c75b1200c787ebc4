//! What happened, in words. The store keeps lines of its own fixed words, each with others' texts behind it; one that is
//! not known here is shown as it is.

use taskgate_core::time::UnixMillis;
use taskgate_wire::text::SafeText;
use taskgate_wire::time;

/// Longest text of others in a line.
const TEXT_CHARS: usize = 300;

/// One line of the history.
pub(super) fn words(line: &str) -> String {
    let (kind, rest) = first(line);
    let said = match kind {
        "created" => "recorded".to_owned(),
        "observed" => format!("the server's task is {}", text(first(rest).0)),
        "asked" => format!("the server asked a question ({})", text(last(rest))),
        "answer_taken" => "the answer to a question was taken".to_owned(),
        "answer_settled" => "the server has the answer to its question".to_owned(),
        "withdrawn" => "a question is void".to_owned(),
        "said" => format!("said: {}", text(rest)),
        "cancel_wished" => "its cancellation was asked for".to_owned(),
        "ended" => {
            let (word, more) = first(first(rest).1);
            format!("the task ended: {}{}", ending(word), colon(more))
        }
        "accepted" => "the server made a task of its own".to_owned(),
        "dispatched" => "sent".to_owned(),
        "settled" => {
            let (word, evidence) = first(rest);
            format!("{}{}", settled(word), by(evidence))
        }
        "doubted" => format!("unknown: {}", doubt(rest)),
        "closed" => "the exchange is proved over".to_owned(),
        "reconciling" => format!("its system of record is asked{}", due(first(rest).1, ", first at ")),
        "probed" => {
            let (word, more) = first(rest);
            let (next, what) = first(more);
            format!("a look-up {}{}{}", finding(word), colon(what), due(next, "; next at "))
        }
        "handed_off" => {
            let (why, note) = first(first(rest).1);
            format!("waits for a person: {}{}", hand_off(why), colon(note))
        }
        "contradicted" => {
            let (held, more) = first(rest);
            let (told, evidence) = first(more);
            format!(
                "a contradiction: {} was held; told is \"{}\"{}",
                settled(held),
                verdict(told),
                by(evidence)
            )
        }
        "acknowledged" => format!("left as it is by {}", text(rest)),
        "cleared" => {
            let what = first(rest).1;
            format!("it is certain that nothing was done, so it may be sent again{}", colon(what))
        }
        "noted" => format!("note: {}", text(rest)),
        _ => text(line),
    };
    // Lines of before there was evidence have nothing behind their words.
    said.trim_end_matches([' ', ',']).to_owned()
}

/// What a line says that was learned of an effect without settling it: by a look-up, by a rule that failed, or by one who
/// contradicts.
pub(super) fn learned(line: &str) -> Option<String> {
    let (kind, rest) = first(line);
    match kind {
        "probed" => {
            let (word, more) = first(rest);
            Some(format!("a look-up {}{}", finding(word), colon(first(more).1)))
        }
        "handed_off" => match first(first(rest).1) {
            ("rule_failed", note) if !note.is_empty() => Some(text(note)),
            (_, _) => None,
        },
        "contradicted" => Some(words(line)),
        _ => None,
    }
}

/// What an outcome means, and how certain it is.
pub(super) fn outcome(certainty: Option<&str>, said: Option<&str>) -> String {
    match (certainty, said) {
        (Some("none_expected"), _) => "none expected: it only reads".to_owned(),
        (Some(certainty), Some(said)) => format!("{certainty}: {}", verdict(said)),
        (Some(certainty), None) => certainty.to_owned(),
        (None, _) => "nothing".to_owned(),
    }
}

fn settled(word: &str) -> String {
    match word.split_once('_') {
        Some(("none", _)) | None => outcome(Some(word), None),
        Some((certainty, said)) => outcome(Some(certainty), Some(said)),
    }
}

fn verdict(word: &str) -> &str {
    match word {
        "not_applied" => "not applied",
        word => word,
    }
}

/// Why nothing certain is known.
pub(super) fn doubt(word: &str) -> &str {
    match word {
        "answer_lost" => "its answer was lost",
        "tool_error" => "the tool says that it failed",
        "peer_error" => "the server answered with an error",
        "deadline_passed" => "its deadline passed before an answer came",
        "upstream_lost" => "the server no longer knows its own task",
        "cancelled" => "it was cancelled, and no answer came",
        word => word,
    }
}

/// What a look-up found.
pub(super) fn finding(word: &str) -> &str {
    match word {
        "applied" => "found the effect",
        "not_applied_fenced" => "found no effect, and the server takes the request no more",
        "not_applied_settled" => "found no effect, when nothing could still arrive",
        "not_applied_open" => "found no effect, which proves nothing yet",
        "unclear" => "gave an answer that says neither",
        "failed" => "failed",
        word => word,
    }
}

/// Why a person is to decide.
pub(super) fn hand_off(word: &str) -> &str {
    match word {
        "no_rule" => "no workflow says how to look it up",
        "budget_spent" => "it was asked for as long as it may be",
        "assumed" => "look-ups found nothing, which proves nothing",
        "contradiction" => "one source says the opposite of another",
        "rule_failed" => "the rule that would decide failed",
        "wished" => "a person asked for it",
        word => word,
    }
}

/// How a task ended.
pub(super) fn ending(word: &str) -> &str {
    match word {
        "cancelled" => "it was cancelled",
        "returned" => "the server returned a result",
        "returned_error" => "the tool says that it failed",
        "raised" => "the server answered with an error",
        "found_applied" => "its answer was lost; its effect was made",
        "found_not_applied" => "its answer was lost; nothing was done",
        "assumed_not_applied" => "its answer was lost; it is assumed that nothing was done",
        "never_sent" => "it was never sent",
        "outcome_unknown" => "nobody knows whether it happened",
        "deadline_passed" => "its deadline passed",
        "upstream_lost" => "the server no longer knows its own task",
        "upstream_fault" => "the server made no sense",
        "no_answer" => "a question could not be answered",
        "budget_spent" => "given up",
        word => word,
    }
}

/// What says so.
fn by(evidence: &str) -> String {
    let (kind, rest) = first(evidence);
    match kind {
        "" => String::new(),
        "answer" => {
            let said = match rest {
                "success" => "a result",
                "tool_error" => "a result that says it failed",
                "not_understood" => "that it did not understand the call",
                "other_error" => "an error",
                other => other,
            };
            format!(", by the server's answer: {}", text(said))
        }
        "never_sent" => ", since no byte of it left".to_owned(),
        "receipt" => format!(", by a receipt: {}", text(rest)),
        "probe" => {
            let (word, what) = first(rest);
            format!(", by a look-up that {}{}", finding(word), colon(what))
        }
        "silence" => format!(", since {} look-ups found nothing", text(rest)),
        "person" => format!(", by {}", text(rest)),
        _ => format!(", by {}", text(evidence)),
    }
}

fn first(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn last(text: &str) -> &str {
    text.rsplit(' ').next().unwrap_or_default()
}

fn text(text: &str) -> String {
    SafeText::new(text, TEXT_CHARS).as_str().to_owned()
}

fn colon(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {}", text(words)) }
}

/// A time behind its words; nothing if it is none.
fn due(millis: &str, before: &str) -> String {
    millis.parse().map(|millis| format!("{before}{}", time::write(UnixMillis(millis)))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r4_1_every_kind_of_line_is_told_in_words() {
        let told = [
            ("created", "recorded"),
            ("dispatched 1788249600000", "sent"),
            ("doubted answer_lost", "unknown: its answer was lost"),
            (
                "settled reported_applied answer success",
                "reported: applied, by the server's answer: a result",
            ),
            ("settled none_expected", "none expected: it only reads"),
            ("settled confirmed_not_applied never_sent", "confirmed: not applied, since no byte of it left"),
            ("settled confirmed_applied receipt tx 7", "confirmed: applied, by a receipt: tx 7"),
            (
                "settled confirmed_applied probe applied found tx-7",
                "confirmed: applied, by a look-up that found the effect: found tx-7",
            ),
            (
                "settled attested_not_applied person ada: the bank's statement",
                "attested: not applied, by ada: the bank's statement",
            ),
            ("settled assumed_not_applied silence 3", "assumed: not applied, since 3 look-ups found nothing"),
            (
                "probed unclear 1788249600000 no such member",
                "a look-up gave an answer that says neither: no such member; next at 2026-09-01T08:00:00.000Z",
            ),
            (
                "reconciling 1788249500000 1788249600000",
                "its system of record is asked, first at 2026-09-01T08:00:00.000Z",
            ),
            ("handed_off 1788249600000 no_rule", "waits for a person: no workflow says how to look it up"),
            (
                "contradicted reported_applied not_applied probe not_applied_settled none",
                "a contradiction: reported: applied was held; told is \"not applied\", by a look-up that found no \
                 effect, when nothing could still arrive: none",
            ),
            (
                "ended 1788249600000 outcome_unknown the gateway stopped",
                "the task ended: nobody knows whether it happened: the gateway stopped",
            ),
            ("something new", "something new"),
        ];
        for (line, said) in told {
            assert_eq!(words(line), said);
        }
    }

    #[test]
    fn r6_3_others_words_cannot_move_the_cursor() {
        assert_eq!(words("said \u{1b}[2Jboo"), "said: boo");
    }
}
