//! The datagrams of a session in the order of their numbers: what comes early waits for a bounded time, what does not come is a hole.

use std::collections::VecDeque;
use std::time::Duration;

use super::Moment;

/// Puts datagrams in order. Pure: the caller brings time.
#[derive(Debug)]
pub(super) struct Order {
    /// The number that is due; `None`: nothing has come.
    next: Option<u64>,
    /// Until when a lesser number may still become the first.
    collecting: Option<Duration>,
    /// Places from `next` on; the last one is taken.
    window: VecDeque<Option<Held>>,
    waiting: usize,
    /// Which of the [`WINDOW`] numbers before `next` have come: a bit each, by the number modulo [`WINDOW`].
    seen: [u64; WINDOW as usize / 64],
    /// The number that the sender's next datagram has, as it said then.
    announced: Option<(u64, Moment)>,
    /// A datagram from far away: believed when its successor comes.
    jump: Option<(u64, Held)>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// A datagram that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    pub(super) moment: Moment,
}

/// What a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the one that is due.
    Due,
    /// Others are due before it.
    Early,
    /// It is here already.
    Copy,
    /// It had been given up, or was sent before the first that came.
    Late,
    /// It is far from all others.
    Jump,
    /// It follows one that was far from all others: the sender did jump.
    Jumped,
}

/// What comes out.
#[derive(Debug)]
pub(super) enum Next {
    Datagram(Held),
    Hole(Hole),
}

/// Datagrams that are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) datagrams: u64,
    /// What the sockets had dropped when the hole was seen.
    pub(super) drops: u64,
}

impl Order {
    pub(super) fn new() -> Self {
        Self {
            next: None,
            collecting: None,
            window: VecDeque::new(),
            waiting: 0,
            seen: [0; WINDOW as usize / 64],
            announced: None,
            jump: None,
            spare: Vec::new(),
        }
    }

    /// Datagrams that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting as u64 + u64::from(self.jump.is_some())
    }

    /// Whether time alone will change something.
    pub(super) fn is_pending(&self) -> bool {
        self.waiting > 0 || self.announced.is_some()
    }

    /// The number after the last one that waits.
    pub(super) fn end(&self) -> u64 {
        self.next.unwrap_or_default() + self.window.len() as u64
    }

    /// Whether everything before a number has come, or was given up.
    pub(super) fn has_reached(&self, number: u64) -> bool {
        self.collecting.is_none() && self.next.is_some_and(|next| next >= number)
    }

    /// Whether the sender's next datagram may have this number.
    pub(super) fn is_ahead(&self, number: u64) -> bool {
        self.next.is_none_or(|next| (next..=next + WINDOW).contains(&number))
    }

    /// What to do with the datagram of a number.
    pub(super) fn judge(&self, number: u64) -> Verdict {
        let Some(next) = self.next else { return Verdict::Early };
        if number >= next + WINDOW || number + WINDOW < next {
            return match self.jump {
                Some((held, _)) if held == number => Verdict::Copy,
                Some((held, _)) if held + 1 == number => Verdict::Jumped,
                _ => Verdict::Jump,
            };
        }
        match number.checked_sub(next) {
            Some(place) if matches!(self.window.get(place as usize), Some(Some(_))) => Verdict::Copy,
            Some(0) if self.collecting.is_none() => Verdict::Due,
            Some(_) => Verdict::Early,
            None if self.collecting.is_some() && next - number + self.window.len() as u64 <= WINDOW => Verdict::Early,
            None if self.seen[word(number)] & bit(number) != 0 => Verdict::Copy,
            None => Verdict::Late,
        }
    }

    /// The one that was due is taken; or it is given up.
    pub(super) fn pass(&mut self, is_here: bool) {
        let Some(next) = self.next else { return };
        // A place of the window that is left is of the number that was due.
        self.window.pop_front();
        self.seen[word(next)] &= !bit(next);
        self.next = Some(next + 1);
        if is_here {
            self.mark(next);
        }
        self.announced.take_if(|(number, _)| *number <= next + 1);
    }

    /// One that is late is a copy the next time.
    pub(super) fn mark(&mut self, number: u64) {
        self.seen[word(number)] |= bit(number);
    }

    /// Keeps one that is early.
    pub(super) fn hold(&mut self, number: u64, bytes: &[u8], moment: Moment, reorder: Duration) {
        if self.next.is_none() {
            self.collecting = Some(moment.now + reorder);
        }
        let next = *self.next.get_or_insert(number);
        for _ in number..next {
            self.window.push_front(None);
            self.next = Some(number);
        }
        let place = number.saturating_sub(next) as usize;
        if self.window.len() <= place {
            self.window.resize_with(place + 1, || None);
        }
        self.window[place] = Some(self.keep(bytes, moment));
        self.waiting += 1;
    }

    /// Keeps one from far away; returns whether another had been kept.
    pub(super) fn hold_jump(&mut self, number: u64, bytes: &[u8], moment: Moment) -> bool {
        let held = self.keep(bytes, moment);
        self.jump.replace((number, held)).is_some()
    }

    /// Forgets one from far away; returns whether there was one.
    pub(super) fn drop_jump(&mut self) -> bool {
        self.jump.take().is_some()
    }

    /// Goes on at the one that was kept from far away; nothing else waits.
    pub(super) fn jump(&mut self) -> Option<Hole> {
        let (number, held) = self.jump.take()?;
        let hole = Hole { datagrams: number.saturating_sub(self.next?), drops: held.moment.drops };
        (self.next, self.announced, self.seen) = (Some(number), None, [0; WINDOW as usize / 64]);
        self.window.push_back(Some(held));
        self.waiting = 1;
        Some(hole)
    }

    /// The sender says which number its next datagram has.
    pub(super) fn announce(&mut self, number: u64, moment: Moment) {
        let next = *self.next.get_or_insert(number);
        if number > next && self.announced.is_none_or(|(announced, _)| number > announced) {
            self.announced = Some((number, moment));
        }
    }

    /// What is due, if it waits here, or else a hole: what has been missing for so long as `reorder`, or is in front of `floor`.
    pub(super) fn pop(&mut self, moment: Moment, reorder: Duration, floor: u64) -> Option<Next> {
        let next = self.next?;
        if self.collecting.is_some_and(|until| moment.now < until) && floor <= next {
            return None;
        }
        self.collecting = None;
        if let Some(held) = self.window.front_mut().and_then(Option::take) {
            self.waiting -= 1;
            self.pass(true);
            return Some(Next::Datagram(held));
        }
        let held = (next..).zip(&self.window).find_map(|(number, held)| Some((number, held.as_ref()?.moment)));
        let is_over = |shown: &(u64, Moment)| moment.now >= shown.1.now + reorder;
        let shown = held.into_iter().chain(self.announced).filter(is_over).min_by_key(|shown| shown.0);
        let (to, shown) = shown.or((floor > next).then_some((floor, moment)))?;
        let to = held.map_or(to, |(number, _)| to.min(number));
        (next..to).for_each(|_| self.pass(false));
        Some(Next::Hole(Hole { datagrams: to - next, drops: shown.drops }))
    }

    /// A buffer that is not needed any more.
    pub(super) fn give_back(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(bytes);
        }
    }

    fn keep(&mut self, bytes: &[u8], moment: Moment) -> Held {
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(bytes);
        Held { bytes: kept, moment }
    }
}

fn word(number: u64) -> usize {
    (number % WINDOW / 64) as usize
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

/// Numbers within which datagrams may come out of order, 20 ms at 200,000 datagrams per second; beyond it one is believed only with its
/// successor.
const WINDOW: u64 = 4096;

/// Buffers that are kept to be used again.
const SPARE: usize = 16;
