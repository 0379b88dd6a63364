//! Alarms that nobody has acknowledged yet: they stay when they are over (EPICS: ACKS, the severity to be acknowledged).

use std::sync::Arc;

use super::limits::severity;
use crate::api::{Acknowledged, Alarm, NotAcknowledged};

/// What of a channel's alarms is still to be acknowledged.
#[derive(Debug, Default)]
pub(super) struct Latch {
    /// The worst since the last word.
    owed: Alarm,
    /// Whose word that was, of the alarm that there is.
    word: Option<Arc<Acknowledged>>,
}

impl Latch {
    /// An alarm has become another. What is no worse than before was known to whoever acknowledged that.
    pub(super) fn pass(&mut self, before: Alarm, alarm: Alarm) {
        if alarm == Alarm::None {
            self.word = None;
        } else if severity(alarm) >= severity(before) {
            self.word = None;
            if severity(alarm) >= severity(self.owed) {
                self.owed = alarm;
            }
        }
    }

    /// Somebody has seen it. `seen`: the worst that was shown to them; `now`: what the alarm is. Returns what they acknowledged.
    pub(super) fn acknowledge(
        &mut self,
        seen: Option<Alarm>,
        now: Alarm,
        by: Acknowledged,
    ) -> Result<Alarm, NotAcknowledged> {
        match (self.owed, seen) {
            (Alarm::None, _) => Err(NotAcknowledged::Nothing),
            (owed, Some(seen)) if severity(seen) < severity(owed) => Err(NotAcknowledged::Worse(owed)),
            (owed, _) => {
                self.owed = Alarm::None;
                self.word = (now != Alarm::None).then(|| Arc::new(by));
                Ok(owed)
            }
        }
    }

    pub(super) fn owed(&self) -> Alarm {
        self.owed
    }

    pub(super) fn word(&self) -> Option<Arc<Acknowledged>> {
        self.word.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(name: &str) -> Acknowledged {
        Acknowledged { by: name.into(), time_ns: 7 }
    }

    #[test]
    fn what_is_over_stays_until_somebody_has_seen_it() {
        let mut latch = Latch::default();
        assert_eq!(latch.acknowledge(None, Alarm::None, by("a")), Err(NotAcknowledged::Nothing));
        latch.pass(Alarm::None, Alarm::High);
        latch.pass(Alarm::High, Alarm::VeryHigh);
        latch.pass(Alarm::VeryHigh, Alarm::High);
        latch.pass(Alarm::High, Alarm::None);
        assert_eq!((latch.owed(), latch.word()), (Alarm::VeryHigh, None));
        // Whoever saw the lesser one has not seen this.
        let early = latch.acknowledge(Some(Alarm::High), Alarm::None, by("a"));
        assert_eq!(early, Err(NotAcknowledged::Worse(Alarm::VeryHigh)));
        assert_eq!(latch.acknowledge(Some(Alarm::VeryHigh), Alarm::None, by("a")), Ok(Alarm::VeryHigh));
        assert_eq!((latch.owed(), latch.word()), (Alarm::None, None));
    }

    #[test]
    fn a_word_holds_until_it_is_worse_or_over() {
        let mut latch = Latch::default();
        latch.pass(Alarm::None, Alarm::VeryHigh);
        assert_eq!(latch.acknowledge(None, Alarm::VeryHigh, by("a")), Ok(Alarm::VeryHigh));
        latch.pass(Alarm::VeryHigh, Alarm::High);
        assert_eq!(latch.word().map(|word| word.by.clone()), Some("a".into()));
        assert_eq!(latch.owed(), Alarm::None);
        latch.pass(Alarm::High, Alarm::VeryHigh);
        assert_eq!((latch.owed(), latch.word()), (Alarm::VeryHigh, None));
        // From high to low is another alarm, as bad as it is.
        assert_eq!(latch.acknowledge(None, Alarm::VeryHigh, by("b")), Ok(Alarm::VeryHigh));
        latch.pass(Alarm::VeryHigh, Alarm::VeryLow);
        assert_eq!(latch.owed(), Alarm::VeryLow);
        assert_eq!(latch.acknowledge(None, Alarm::VeryLow, by("b")), Ok(Alarm::VeryLow));
        latch.pass(Alarm::VeryLow, Alarm::None);
        assert_eq!((latch.owed(), latch.word()), (Alarm::None, None));
    }
}
