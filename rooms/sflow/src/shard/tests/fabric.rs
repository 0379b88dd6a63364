//! What loses datagrams, by a seed.

use weir_testbed::random::Source;

/// How datagrams get lost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// Each with this chance.
    Independent(f64),
    /// This share of them, 1 to 100 in a row, all equally likely.
    Bursts(f64),
}

/// A network that loses datagrams.
pub(crate) struct Fabric {
    random: Source,
    loss: Loss,
    /// Datagrams of the present run that are still to be lost, or to come.
    left: u64,
    losing: bool,
}

impl Fabric {
    pub(crate) fn new(random: Source, loss: Loss) -> Self {
        Self { random, loss, left: 0, losing: false }
    }

    /// Whether the next datagram is lost.
    pub(crate) fn loses(&mut self) -> bool {
        match self.loss {
            Loss::Independent(share) => self.random.uniform() < share,
            Loss::Bursts(share) => {
                while self.left == 0 {
                    self.losing = !self.losing;
                    self.left = match self.losing {
                        true => self.random.number(1..101),
                        false => self.random.exponential(50.5 * (1.0 - share) / share).round() as u64,
                    };
                }
                self.left -= 1;
                self.losing
            }
        }
    }
}
