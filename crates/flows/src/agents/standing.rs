//! Whether a stream may speak for its agent, as the room that protects needs to know.
//!
//! ```text
//! first datagram -> new -> settled once heard for `settle` -> contested by a contradiction -> settled after `settle` without one
//! another stream of the identity: a rival once a settled one has been heard since it began; of several settled or unsettled ones, all are contested
//! ```

use serde::{Deserialize, Serialize};
use weir_detect::model::{Why, Word};

use super::{Agent, Nanos, SECOND, SILENCE};

/// Of one stream. Only of those that somebody asks about anything but the contradictions is kept.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Standing {
    /// When it began; 0: nobody has asked.
    since: Nanos,
    /// When it spoke last.
    heard: Nanos,
    /// When it last contradicted itself; 0: never.
    contested: Nanos,
    #[serde(skip)]
    why: Option<Why>,
    /// When that was told last, and that the agent is alive.
    #[serde(skip)]
    told: Nanos,
    #[serde(skip)]
    alive: Nanos,
}

/// What there is to tell of a listed stream's datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// What speaks against it; `None`: it is a rival of a settled one.
    pub(crate) word: Option<Word>,
    /// A contradiction that has not been told of for long.
    pub(crate) why: Option<Why>,
    /// Whether it is time to tell that the agent is heard.
    pub(crate) alive: bool,
}

impl Standing {
    /// It speaks from elsewhere, or its agent restarted.
    pub(super) fn begin_again(&mut self, now: Nanos) {
        if self.since != 0 {
            self.since = now;
        }
    }

    pub(super) fn contradict(&mut self, now: Nanos, why: Why) {
        (self.contested, self.why) = (now, Some(why));
    }

    fn is_contested(&self, now: Nanos, settle: Nanos) -> bool {
        self.contested != 0 && now < self.contested + settle
    }

    /// Whether it has been heard for so long without a contradiction: age alone settles nothing.
    fn is_settled(&self, settle: Nanos) -> bool {
        self.since != 0 && self.heard >= self.since.max(self.contested) + settle
    }
}

impl Agent {
    /// A datagram of a listed stream came.
    pub(super) fn judge(&mut self, index: usize, now: Nanos, settle: Nanos) -> Judged {
        let own = &mut self.streams[index].standing;
        let is_settled = own.is_settled(settle);
        if own.since == 0 {
            own.since = now;
        }
        own.heard = now;
        let since = own.since;
        // One that was heard last before this one began may be the same agent, which restarted with another port.
        let is_beside = |Standing { heard, .. }: &Standing| *heard > since && now <= *heard + SILENCE;
        let others =
            || self.streams().iter().enumerate().filter(|&(at, other)| at != index && is_beside(&other.standing));
        let is_rival = !is_settled && others().any(|(_, other)| other.standing.is_settled(settle));
        let twins: Vec<usize> = match is_rival {
            true => Vec::new(),
            false => {
                let alike = others().filter(|(_, other)| other.standing.is_settled(settle) == is_settled);
                alike.map(|(at, _)| at).collect()
            }
        };
        for &twin in &twins {
            self.streams[twin].standing.contradict(now, Why::Twins);
        }
        let own = &mut self.streams[index].standing;
        if is_rival {
            own.contested = now;
            return Judged { word: None, why: None, alive: false };
        }
        if !twins.is_empty() {
            own.contradict(now, Why::Twins);
        }
        let is_contested = own.is_contested(now, settle);
        let why = own.why.filter(|_| is_contested && (own.told == 0 || now >= own.told + settle));
        let alive = now >= own.alive + SECOND;
        own.told = if why.is_some() { now } else { own.told };
        own.alive = if alive { now } else { own.alive };
        let word = match () {
            () if is_contested => Word::Contested,
            () if own.is_settled(settle) => Word::Good,
            () => Word::New,
        };
        Judged { word: Some(word), why, alive }
    }
}
