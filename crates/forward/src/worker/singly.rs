//! Whether datagrams come one at a time, to a worker that waits for nothing else: then the look for a second one would be in
//! vain, and costs as much as the rest of the call.

use super::batch::Look;

/// Batches of one message in a row, counted so far as it matters.
#[derive(Debug, Default)]
pub(super) struct Singly(u32);

impl Singly {
    /// How to look next.
    pub(super) fn look(&self) -> Look {
        if self.0 < IN_A_ROW { Look::Wait } else { Look::WaitForOne }
    }

    /// So many messages came; `None`: the wait was in vain, which says nothing.
    pub(super) fn note(&mut self, messages: Option<usize>) {
        self.0 = match messages {
            None => self.0,
            // Whether it is so still shows when more would be taken.
            Some(1) if self.0 + 1 == IN_A_ROW + BLINDLY => IN_A_ROW - 1,
            Some(1) => self.0 + 1,
            Some(_) => 0,
        };
    }
}

/// Batches of one message in a row after which the next is expected to be one, too.
const IN_A_ROW: u32 = 16;

/// Messages that are taken so before there is a look for a second one again: of a burst, as many are taken one by one.
const BLINDLY: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes at each look, which takes no more than it wants; the looks that took several messages, and how many took
    /// one without asking for more.
    fn looks(queues: impl IntoIterator<Item = usize>) -> (usize, usize) {
        let (mut singly, mut several, mut blindly) = (Singly::default(), 0, 0);
        for mut queue in queues {
            while queue > 0 {
                let look = singly.look();
                let taken = if look == Look::WaitForOne { 1 } else { queue };
                queue -= taken;
                singly.note(Some(taken));
                several += usize::from(taken > 1);
                blindly += usize::from(look == Look::WaitForOne);
            }
        }
        (several, blindly)
    }

    #[test]
    fn what_comes_singly_is_taken_singly_with_a_look_now_and_then() {
        assert_eq!(looks([1; 16]), (0, 0));
        assert_eq!(looks([1; 16 + 900]), (0, 800));
    }

    #[test]
    fn bursts_are_taken_whole() {
        assert_eq!(looks([8; 100]), (100, 0));
        // Of each the first wakes the worker before the others are there.
        assert_eq!(looks([1, 7].repeat(100)), (100, 0));
        // One behind many that came singly: the next are not.
        assert_eq!(looks([1; 100].into_iter().chain([64, 64, 64])).0, 3);
        let (_, blindly) = looks([1; 24].into_iter().chain([1_000; 50]));
        assert!(blindly <= 16, "{blindly}");
    }

    #[test]
    fn a_wait_in_vain_says_nothing() {
        let mut singly = Singly::default();
        (0..16).for_each(|_| singly.note(Some(1)));
        singly.note(None);
        assert_eq!(singly.look(), Look::WaitForOne);
    }
}
