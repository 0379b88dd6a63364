//! How long a stream is silent between two of its datagrams: so long somebody else may speak in it before the agent's own next one shows that.

use super::SECOND;

/// The longest pauses of late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pauses {
    /// The longest that ended in each of the last windows, ms, the newest first. By time: whoever sends often in a pause makes it no shorter.
    longest: [u32; WINDOWS],
    /// Number of the newest window.
    window: u64,
}

impl Pauses {
    /// A datagram came after so many ns.
    #[inline]
    pub(crate) fn enter(&mut self, pause: u64, now: u64) {
        let passed = (now / WINDOW).saturating_sub(self.window);
        if passed > 0 {
            let passed = passed.min(WINDOWS as u64) as usize;
            self.longest.rotate_right(passed % WINDOWS);
            self.longest[..passed].fill(0);
            self.window = now / WINDOW;
        }
        let pause = u32::try_from(pause / MILLISECOND).unwrap_or(u32::MAX);
        self.longest[0] = self.longest[0].max(pause);
    }

    /// The longest that is remembered, ns.
    pub(crate) fn longest(&self) -> u64 {
        self.longest.iter().copied().max().map_or(0, |longest| u64::from(longest) * MILLISECOND)
    }
}

const MILLISECOND: u64 = SECOND / 1000;

/// How long a window is, ns, and how many are remembered: five minutes and what has passed of another.
const WINDOW: u64 = 60 * SECOND;
const WINDOWS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_often_for_a_while_makes_no_pause_shorter() {
        let start = 1_000 * SECOND;
        let mut pauses = Pauses::default();
        let mut now = start;
        let mut pass = |pauses: &mut Pauses, pause: u64, times: u64| {
            for _ in 0..times {
                now += pause;
                pauses.enter(pause, now);
            }
            pauses.longest()
        };
        assert_eq!(pass(&mut pauses, 20 * SECOND, 20), 20 * SECOND);
        // Four minutes of ten a second, and four more: nobody is known to be slow for ever.
        assert_eq!(pass(&mut pauses, SECOND / 10, 2_400), 20 * SECOND);
        assert_eq!(pass(&mut pauses, SECOND / 10, 2_400), SECOND / 10);
        assert_eq!(pass(&mut pauses, 900 * SECOND, 1), 900 * SECOND);
    }
}
