//! `replies` of a `[[destination]]`: whose answers go back.

use std::collections::BTreeSet;

use anyhow::Result;
use weir_program::config::Step;

use super::Checker;
use crate::config::document;
use weir_forward::settings::{Destination, Group, Matching, Policy, Recipient, Rule};

impl Checker<'_> {
    /// Refuses that a datagram may have more than one answer: whoever asks one server is not to hear two. A rule that is not
    /// written is that for everything.
    pub(super) fn refuse_two_answers(
        &self,
        written: &[document::Rule],
        rules: &[Rule],
        destinations: &[Destination],
        groups: &[Group],
        matching: Matching,
    ) -> Result<()> {
        let name = |at: usize| destinations[at].name.as_str();
        let mut before: BTreeSet<usize> = BTreeSet::new();
        for (index, rule) in rules.iter().enumerate() {
            let answer = answering(rule, destinations, groups);
            if matching == Matching::All {
                before.extend(&answer);
            } else {
                before = answer;
            }
            let mut those = before.iter();
            if let (Some(&one), Some(&other)) = (those.next(), those.next()) {
                let message = format!(
                    "rule `{}`: to: `{}` and `{}` would both answer (replies = true for one of them at most, or a group \
                     that chooses one)",
                    rule.name,
                    name(one),
                    name(other)
                );
                let at_rule = [Step::Key("rule"), Step::Index(index), Step::Key("to")];
                let at_destination = [Step::Key("destination"), Step::Index(other), Step::Key("replies")];
                return Err(self.error(if written.is_empty() { &at_destination } else { &at_rule }, &message));
            }
        }
        Ok(())
    }
}

/// Destinations that may all answer a datagram of a rule. Of a group that chooses one, the first that would.
fn answering(rule: &Rule, destinations: &[Destination], groups: &[Group]) -> BTreeSet<usize> {
    let answers = |&at: &usize| destinations[at].replies;
    let of = |recipient: &Recipient| -> Vec<usize> {
        match *recipient {
            Recipient::Destination(at) => [at].into_iter().filter(answers).collect(),
            Recipient::Group(group) => {
                let members = groups[group].members.iter().copied().filter(answers);
                let most = if groups[group].policy == Policy::Replicate { usize::MAX } else { 1 };
                members.take(most).collect()
            }
        }
    };
    rule.to.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{Config, Local};
    use weir_forward::settings::Replies;

    fn read(text: &str) -> Result<Config> {
        Config::read("tee.toml", text, &Local::default())
    }

    /// Two destinations of which both answer, or one, with further keys.
    fn answered(both: bool, more: &str, rest: &str) -> Result<Config> {
        let other = if both { "replies = true" } else { "" };
        read(&format!(
            "match = \"all\"\n[[listener]]\naddress = \"0.0.0.0:514\"\n\
             [[destination]]\nname = \"a\"\nto = \"10.0.0.5:1\"\nreplies = true\n{more}\n\
             [[destination]]\nname = \"b\"\nto = \"10.0.0.6:1\"\n{other}\n{rest}"
        ))
    }

    #[test]
    fn one_destination_at_most_answers() {
        let group = |policy| format!("[[group]]\nname = \"g\"\nmembers = [\"a\", \"b\"]\npolicy = \"{policy}\"");
        let rules = "[[rule]]\nfrom = \"10.0.0.0/8\"\nto = \"a\"\n[[rule]]\nto = \"b\"";
        let replies = answered(false, "", "").unwrap().settings.destinations[0].answers().unwrap();
        assert_eq!((replies.sessions, replies.timeout), (1_024, Duration::from_secs(60)));
        let replies =
            answered(false, "sessions = 9\nsession_timeout = \"2s\"", "").unwrap().settings.destinations[0].answers();
        assert_eq!(replies, Some(Replies { sessions: 9, timeout: Duration::from_secs(2) }));
        for (rest, place) in
            [("", "12: rule `rule 1`"), (&group("replicate"), "12: rule `rule 1`"), (rules, "17: rule `rule 2`")]
        {
            let error = answered(true, "", rest).unwrap_err().to_string();
            let what = "to: `a` and `b` would both answer (replies = true for one of them at most, or a group that chooses one)";
            assert_eq!(error, format!("tee.toml:{place}: {what}"), "{rest}");
        }
        for policy in ["hash", "round-robin", "failover"] {
            answered(true, "", &group(policy)).unwrap();
        }
        // Where the first rule counts, each may have its own.
        let text = "[[listener]]\naddress = \"0.0.0.0:514\"\n[[destination]]\nname = \"a\"\nto = \"10.0.0.5:1\"\nreplies = true\n\
                    [[destination]]\nname = \"b\"\nto = \"10.0.0.6:1\"\nreplies = true\n";
        read(&[text, rules].concat()).unwrap();
        for (more, message) in [
            ("source = \"kept\"", "7: destination `a`: replies: with a kept source it answers the sender itself"),
            (
                "from = \"10.0.0.1:9\"",
                "8: destination `a`: from: with `replies` each client has a port of its own (write port 0)",
            ),
            (
                "addresses = \"all\"",
                "8: destination `a`: addresses: with `replies` one alone may answer (write \"first\")",
            ),
            ("sessions = 0", "8: destination.sessions: 0 (it must be 1 to 60000)"),
            ("sessions = 60001", "8: destination.sessions: 60001 (it must be 1 to 60000)"),
            ("session_timeout = \"1ms\"", "8: destination.session_timeout: 1ms (it must be 100ms to "),
        ] {
            let error = answered(false, more, "").unwrap_err().to_string();
            assert!(error.starts_with(&format!("tee.toml:{message}")), "{error}");
        }
    }
}
