//! For how long samples may have been kept before they are looked at: by agents, on the way, and by the socket while the analyser stood
//! still.
//!
//! What is in a datagram was sampled since its agent sent the one before. An agent's uptimes say when it sent each, so whatever waited on the
//! way is known for as old as it is, however often and in whatever pieces the way stood still. An agent that stands still itself tells no
//! such thing: it is silent, and what has gathered comes afterwards, at once or bit by bit.

use crate::agents::{Pauses, SECOND};

/// The longest that an agent keeps a sample (sFlow version 5: no sample is delayed by more than a second) that does not send in batches, ns.
pub(super) const MOST: u64 = SECOND;

/// The longest that is believed of a stream that stood still, be it its agent or the way here, ns.
const LONGEST: u64 = 10 * SECOND;

/// A tick so late comes after a standstill, ns.
const LATE: u64 = SECOND / 5;

/// A datagram that comes so soon after another may hold what was kept with that, ns.
const BEHIND: u64 = SECOND / 200;

/// What comes one behind the other for longer is not sent at once, ns.
const AT_ONCE: u64 = SECOND / 20;

/// A stream stands still when so many of its datagrams are missing, by the pace that it had, and what it sends at once is late by the
/// rhythm that it had: whoever sends several a second in one go does not stand still in between.
const MISSING: f32 = 3.0;
const OVERDUE: f32 = 1.5;

/// Who sends several at once keeps samples from one time to the next, for more than a second, too: where it is silent for no less than this part
/// of its rhythm, which is not known of a stream that is no older than so many times that silence.
const IN_RHYTHM: f32 = 0.5;
const NEW: f32 = 2.5;

/// Over how long its pace is smoothed, seconds.
const PACE: f32 = 10.0;

/// It has fallen when its last datagrams, some 16, were so many times as far apart as by what was smoothed: what an agent sent of a flood that is over
/// is not missing. The time between two of them counts for a few times what it was of late at most: a standstill is no pace.
const FALLEN: f32 = 1.5;
const OF_LATE: f32 = 1.0 / 16.0;
const AT_MOST: f32 = 4.0;

/// It has fallen, too, when so many silences in a row were each followed by little of what was missing: what an agent keeps it sends when it can.
const NOTHING_KEPT: u32 = 3;
const LITTLE: f32 = 0.25;

/// Datagrams are never taken to come faster one after the other than this, seconds.
const FASTEST: f32 = 1e-4;

/// Part of the datagrams that were missing after which what had gathered is taken to be here: how many there are is chance.
const MADE_UP: f32 = 0.8;

/// Standstills one behind the other, what gathered in one not being here when the next one began, are together no longer than so many times
/// the longest of them: else the rhythm in which some agents send would in time become one that is very long.
const TOGETHER: u64 = 4;

/// A stream's datagrams, as they came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathering {
    /// When the last one came.
    heard: u64,
    kept: u64,
    ago: [u64; 2],
    /// In order, by our clock and by the agent's.
    came: Pace,
    sent: Pace,
    /// The agent's clock: its last uptime, ms, and all that it went on by since the first, ns.
    uptime: u32,
    clock: u64,
    pauses: Pauses,
}

/// What is known of a datagram in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// When it came, ns.
    pub(super) now: u64,
    /// The agent's uptime in it, ms.
    pub(super) uptime: u32,
    /// In what steps uptimes go, ms; 0: not with the time.
    pub(super) granule: u32,
    /// How much longer it was on its way than others, ns.
    pub(super) waited: u64,
}

/// How datagrams follow one another on a clock.
#[derive(Clone, Copy, Debug)]
struct Pace {
    began: u64,
    last: u64,
    /// For how long samples in the last one may have been kept, at most, and most likely, ns.
    kept: u64,
    likely: u64,
    /// Datagrams a second, then, and how often a second some were sent at once.
    pace: f32,
    rhythm: f32,
    /// How far apart the last few of them were, seconds.
    apart: f32,
    /// When what was sent at once last began.
    sending: u64,
    stood: Stood,
    silences: Silences,
}

/// Silences in a row that look like standstills, and behind which nothing had gathered.
#[derive(Clone, Copy, Debug, Default)]
struct Silences {
    /// How many, since when, and what has come since.
    count: u32,
    since: u64,
    came: f32,
    /// What was missing in the last one, and what has come behind it.
    missing: f32,
    behind: f32,
}

/// The last standstill, or several of which the next one began before what had gathered was here.
#[derive(Clone, Copy, Debug, Default)]
struct Stood {
    /// From the last datagram before it, and until what had gathered has come, at the latest.
    from: u64,
    until: u64,
    /// Since when what is owed was taken: later than that, where what had gathered before was here.
    since: u64,
    /// How long the longest of several was, ns.
    longest: u64,
    /// Datagrams that are still to come of what had gathered.
    owed: f32,
}

impl Gathering {
    /// Its first datagram.
    pub(super) fn new(uptime: u32, now: u64) -> Self {
        let (came, sent) = (Pace::new(now), Pace::new(0));
        Self { heard: now, kept: MOST, ago: [MOST, 0], came, sent, uptime, clock: 0, pauses: Pauses::default() }
    }

    /// When the last one came.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    /// For how long its samples may have been kept, ns.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// How long ago they were taken, most likely: the oldest, and the newest, ns.
    pub(super) fn ago(&self) -> [u64; 2] {
        self.ago
    }

    /// For how long it was silent between two datagrams of late, at most, ns.
    pub(super) fn pause(&self) -> u64 {
        self.pauses.longest()
    }

    /// A datagram of it came, in order or not.
    pub(super) fn hear(&mut self, now: u64) {
        self.pauses.enter(now.saturating_sub(self.heard), now);
        self.heard = self.heard.max(now);
    }
}

impl Pace {
    fn new(now: u64) -> Self {
        let stood = Stood::default();
        let (pace, rhythm, apart) = (0.0, 0.0, 0.0);
        let silences = Silences::default();
        Self { began: now, last: now, kept: MOST, likely: MOST, pace, rhythm, apart, sending: now, stood, silences }
    }

    /// The next one; `extra`: by how much longer than others its samples may have been kept.
    fn enter(&mut self, now: u64, extra: u64) {
        let gap = now.saturating_sub(self.last);
        let seconds = gap as f32 * 1e-9;
        if self.is_overdue(seconds) && self.silences.enter(self.last, self.present() * seconds) {
            self.fall();
        }
        self.silences.came += 1.0;
        self.silences.behind += 1.0;
        let due = self.present() * seconds;
        let stands_still = self.is_overdue(seconds);
        let longest = LONGEST + extra;
        let most = if self.is_in_batches(seconds) { longest } else { MOST + extra };
        let stood = &mut self.stood;
        let is_owed = self.last < stood.until && stood.owed > 0.0;
        if stands_still {
            // The one who sends may be held up once more.
            let is_within = now <= stood.until && gap <= stood.longest / 2;
            if !is_owed {
                stood.since = self.last;
            }
            if !is_owed && !is_within {
                *stood = Stood { from: self.last, since: self.last, ..Stood::default() };
            }
            if is_owed || !is_within {
                // What is still to come of one takes its time after the next, too.
                let left = if gap >= stood.longest / 4 { stood.until.saturating_sub(self.last) } else { 0 };
                stood.longest = stood.longest.max(gap);
                stood.until = stood.until.max(now + (gap + left).min(longest));
            }
            let oldest = now.saturating_sub(longest.min(TOGETHER * stood.longest));
            (stood.from, stood.since) = (stood.from.max(oldest), stood.since.max(oldest));
        }
        if stands_still || is_owed {
            stood.owed += MADE_UP * due;
        }
        let Stood { from, until, since, owed, .. } = *stood;
        // What was kept may fill several datagrams, one right behind the other.
        let behind = |kept: u64| gap.max(kept.saturating_sub(gap));
        self.kept = match () {
            () if now <= until => now.saturating_sub(from),
            () if gap < BEHIND => behind(self.kept),
            () => gap.min(most),
        };
        self.likely = match () {
            () if owed > 0.0 => now.saturating_sub(since),
            () if gap < BEHIND => behind(self.likely),
            () => gap.min(most),
        };
        stood.owed = (owed - 1.0).max(0.0);
        let begins = gap >= BEHIND || now.saturating_sub(self.sending) >= AT_ONCE;
        if begins {
            self.sending = now;
        }
        let faded = (-seconds / PACE).exp();
        self.pace = self.pace * faded + 1.0 / PACE;
        self.rhythm = self.rhythm * faded + if begins { 1.0 / PACE } else { 0.0 };
        self.apart += OF_LATE * (seconds.min(AT_MOST * self.apart.max(FASTEST)) - self.apart);
        self.last = self.last.max(now);
    }

    /// Whether so many are missing after such a silence that it is none of its pace.
    fn is_overdue(&self, seconds: f32) -> bool {
        self.present() * seconds >= MISSING && self.usual(self.rhythm) * seconds >= OVERDUE
    }

    /// Whether what is missing after such a silence comes at once, as it did before.
    fn is_in_batches(&self, seconds: f32) -> bool {
        let age = self.last.saturating_sub(self.began) as f32 * 1e-9;
        let is_new = seconds <= LONGEST as f32 * 1e-9 && age <= NEW * seconds;
        self.present() * seconds >= MISSING && (is_new || self.usual(self.rhythm) * seconds >= IN_RHYTHM)
    }

    /// Its pace is that which it had in its last silences: it does not stand still, and has not.
    fn fall(&mut self) {
        let Silences { since, came, .. } = std::mem::take(&mut self.silences);
        let apart = (self.last.saturating_sub(since) as f32 * 1e-9 / came.max(1.0)).max(FASTEST);
        let age = self.last.saturating_sub(self.began) as f32 * 1e-9;
        let smoothed = -(-age.max(1.0) / PACE).exp_m1() / apart + 1.0 / PACE;
        (self.pace, self.rhythm, self.apart) = (self.pace.min(smoothed), self.rhythm.min(smoothed), apart);
        self.stood = Stood::default();
    }

    /// How many a second there are now: what is usual, unless that has fallen.
    fn present(&self) -> f32 {
        let usual = self.usual(self.pace);
        if usual * self.apart > FALLEN { self.apart.recip() } else { usual }
    }

    /// How many a second, of what is smoothed so, since there are any, if that is not long. The last one alone is no pace: whoever sends one
    /// in half a minute does not stand still in between.
    fn usual(&self, smoothed: f32) -> f32 {
        let age = self.last.saturating_sub(self.began) as f32 * 1e-9;
        (smoothed - 1.0 / PACE).max(0.0) / -(-age.max(1.0) / PACE).exp_m1()
    }
}

impl Silences {
    /// One that began then is over, in which so many were missing; whether there were enough of them in a row.
    fn enter(&mut self, from: u64, missing: f32) -> bool {
        let is_kept = self.behind > LITTLE * self.missing;
        let (count, since, came) = if is_kept { (0, from, 0.0) } else { (self.count + 1, self.since, self.came) };
        *self = Self { count, since, came, missing, behind: 0.0 };
        count >= NOTHING_KEPT
    }
}

/// When the analyser stood still last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standstill {
    ticked: u64,
    from: u64,
    to: u64,
}

impl Standstill {
    /// Some twenty times a second.
    pub(super) fn tick(&mut self, now: u64) {
        if self.is_late(now) {
            (self.from, self.to) = (self.ticked, now);
        }
        self.ticked = self.ticked.max(now);
    }

    /// A stream's next datagram in order: its samples may have been kept since the one before was sent, and behind a standstill, which takes no
    /// longer to make up for than it was, since that began, with whatever pauses.
    pub(super) fn enter(&self, gathering: &mut Gathering, arrival: Arrival) {
        let Arrival { now, uptime, granule, waited } = arrival;
        let Gathering { came, sent, .. } = gathering;
        let extra = self.length(came.last, now);
        let gap = now.saturating_sub(came.last);
        came.enter(now, extra);
        let on = uptime.wrapping_sub(std::mem::replace(&mut gathering.uptime, uptime)) as i32;
        let is_exact =
            (1..=EXACT).contains(&granule) && u64::try_from(on).is_ok_and(|on| on * MILLISECOND <= gap + LONGEST);
        let waited = if granule > 0 { waited.min(LONGEST + extra) } else { 0 };
        gathering.clock += if is_exact { on as u64 * MILLISECOND } else { gap };
        sent.enter(gathering.clock, if is_exact { 0 } else { extra });
        let step = u64::from(granule) * MILLISECOND;
        // How late something is is known but for a step.
        let waits = if waited > step { waited } else { 0 };
        gathering.kept = came.kept.max(waits + sent.kept);
        let newest = waits.saturating_sub(step);
        // What came in time was taken since the one before came: steps say no more of when.
        let likely = if waits == 0 && step >= BEHIND { came.likely.min(sent.likely) } else { sent.likely };
        gathering.ago = [(newest + likely).min(gathering.kept), newest];
    }

    /// How long it was, if it was between two datagrams; 0: it was not.
    fn length(&self, before: u64, now: u64) -> u64 {
        let (from, to) = if self.is_late(now) { (self.ticked, now) } else { (self.from, self.to) };
        if before < to { to - from } else { 0 }
    }

    fn is_late(&self, now: u64) -> bool {
        self.ticked > 0 && now.saturating_sub(self.ticked) > LATE
    }
}

const MILLISECOND: u64 = SECOND / 1000;

/// Steps of an uptime by which it is known how datagrams follow one another, ms.
const EXACT: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn gathering(heard: u64, kept: u64) -> Gathering {
        let mut gathering = Gathering::new(0, heard);
        gathering.came.kept = kept;
        gathering.sent.kept = kept;
        gathering
    }

    /// A datagram of an agent whose uptime says nothing.
    fn enter(standstill: &Standstill, gathering: &mut Gathering, now: u64) -> u64 {
        gathering.hear(now);
        standstill.enter(gathering, Arrival { now, uptime: 0, granule: 0, waited: 0 });
        gathering.kept()
    }

    fn kept(standstill: &Standstill, mut gathering: Gathering, now: u64) -> u64 {
        enter(standstill, &mut gathering, now)
    }

    #[test]
    fn what_is_kept_is_as_old_as_the_datagram_before_at_most() {
        let mut standstill = Standstill::default();
        standstill.tick(10 * SECOND);
        let kept = |before, gap| kept(&standstill, gathering(10 * SECOND, before), 10 * SECOND + gap);
        assert_eq!(kept(0, 20 * MILLISECOND), 20 * MILLISECOND);
        assert_eq!(kept(MOST, 20 * MILLISECOND), 20 * MILLISECOND);
        // Several that are sent at once hold what was kept since the one before the first of them.
        assert_eq!(kept(MOST, MILLISECOND), MOST - MILLISECOND);
        assert_eq!(kept(0, MILLISECOND), MILLISECOND);
    }

    #[test]
    fn no_agent_keeps_them_for_longer_that_had_few() {
        let standstill = Standstill::default();
        assert_eq!(kept(&standstill, gathering(SECOND, 0), 61 * SECOND), MOST);
        // Counters now and then.
        for apart in [5, 10, 20, 30, 60, 100] {
            let mut gathering = Gathering::new(0, SECOND);
            for number in 1..20 {
                let kept = enter(&standstill, &mut gathering, SECOND + apart * number * SECOND);
                assert_eq!(kept, MOST, "{apart} s");
            }
        }
    }

    #[test]
    fn a_busy_stream_that_is_silent_stands_still() {
        let standstill = Standstill::default();
        // 50 datagrams a second, then none for 2 s, then what has gathered, 20 ms apart.
        let mut gathering = Gathering::new(0, SECOND);
        let (mut now, mut longest) = (SECOND, 0);
        for _ in 0..500 {
            now += 20 * MILLISECOND;
            enter(&standstill, &mut gathering, now);
            longest = longest.max(gathering.kept());
        }
        assert_eq!(longest, 20 * MILLISECOND);
        now += 2 * SECOND;
        enter(&standstill, &mut gathering, now);
        assert_eq!(gathering.kept(), 2 * SECOND);
        // The one who sends is held up once more: all of it may have been kept since the beginning.
        for (gap, kept) in [(20, 2_020), (20, 2_040), (400, 2_440), (1, 2_441)] {
            now += gap * MILLISECOND;
            enter(&standstill, &mut gathering, now);
            assert_eq!(gathering.kept(), kept * MILLISECOND);
        }
        // It is over with time.
        for _ in 0..100 {
            now += 20 * MILLISECOND;
            enter(&standstill, &mut gathering, now);
        }
        assert_eq!(gathering.kept(), 20 * MILLISECOND);
        assert_eq!(kept(&standstill, gathering, now + 60 * SECOND), LONGEST);
    }

    #[test]
    fn many_short_standstills_are_no_long_one() {
        let standstill = Standstill::default();
        let mut gathering = Gathering::new(0, SECOND);
        let (mut now, mut longest) = (SECOND, 0);
        for number in 0..5_000 {
            now += if number % 10 == 0 { 200 } else { 10 } * MILLISECOND;
            enter(&standstill, &mut gathering, now);
            longest = longest.max(if number > 500 { gathering.kept() } else { 0 });
        }
        assert!(longest <= 600 * MILLISECOND, "{longest}");
    }

    #[test]
    fn what_came_while_nobody_looked_is_as_old_as_that() {
        let mut standstill = Standstill::default();
        standstill.tick(10 * SECOND);
        // Before the first tick afterwards, and behind it.
        assert_eq!(kept(&standstill, gathering(10 * SECOND, 0), 22 * SECOND), 12 * SECOND);
        standstill.tick(22 * SECOND);
        let second = 22 * SECOND + MILLISECOND;
        assert_eq!(kept(&standstill, gathering(22 * SECOND, 12 * SECOND), second), 12 * SECOND - MILLISECOND);
        assert_eq!(kept(&standstill, gathering(9 * SECOND, 0), second), 13 * SECOND);
        // It is over for whoever was heard since.
        (1..60).for_each(|tick| standstill.tick(22 * SECOND + tick * 50 * MILLISECOND));
        assert_eq!(kept(&standstill, gathering(23 * SECOND, 0), 25 * SECOND), MOST);
    }

    /// The way here is shut for as long as the first number says, ms, then open for the second, and so on; 140 datagrams a second, whose
    /// uptimes tell when they were sent, or do not. How much less than the truth is ever allowed for.
    fn missed(pauses: &[u64], is_told: bool) -> u64 {
        let (standstill, mut gathering) = (Standstill::default(), Gathering::new(0, SECOND));
        let (mut missed, mut sent) = (0, 0u64);
        let mut shut = Vec::new();
        pauses
            .iter()
            .scan(30 * SECOND, |at, pause| Some(std::mem::replace(at, *at + pause * MILLISECOND)))
            .for_each(|at| shut.push(at));
        let end = shut[shut.len() - 1] + 3 * SECOND;
        let opens = |at: u64| {
            shut.chunks(2).find(|two| two[0] <= at && two.get(1).is_some_and(|&until| at < until)).map(|two| two[1])
        };
        while sent < end {
            let before = sent;
            sent += 7 * MILLISECOND;
            let now = SECOND + opens(sent).unwrap_or(sent);
            let uptime = (sent / MILLISECOND) as u32;
            let waited = now - SECOND - sent;
            let granule = u32::from(is_told);
            gathering.hear(now);
            standstill.enter(&mut gathering, Arrival { now, uptime, granule, waited });
            missed = missed.max((now - SECOND - before).saturating_sub(gathering.kept()));
        }
        missed
    }

    #[test]
    fn a_second_standstill_is_as_long_as_it_is() {
        for pauses in [
            &[2_000, 300, 1_990, 300][..],
            &[2_000, 300, 2_000, 300, 2_000, 300],
            &[3_000, 100, 1_400, 700, 1_000, 300],
            &[1_000, 300, 1_000, 300, 990, 300, 980, 300],
            &[300, 50, 290, 50, 2_000, 50, 1_900, 50],
        ] {
            for is_told in [false, true] {
                let missed = missed(pauses, is_told);
                assert!(missed <= 30 * MILLISECOND, "{pauses:?}, {is_told}: {missed} ns");
            }
        }
    }

    /// 10 datagrams a second, 250 in a flood that is over for some time, then none for 2 s: as many have gathered as come now, and not as came then.
    #[test]
    fn what_came_of_a_flood_is_not_missing_when_it_is_over() {
        for (is_told, over) in [(false, 10_000), (false, 15_000), (true, 10_000), (true, 15_000)] {
            let (standstill, mut gathering) = (Standstill::default(), Gathering::new(0, SECOND));
            let mut enter = |ms: u64| {
                let now = SECOND + ms * MILLISECOND;
                gathering.hear(now);
                let arrival = Arrival { now, uptime: ms as u32, granule: u32::from(is_told), waited: 0 };
                standstill.enter(&mut gathering, arrival);
                gathering.kept() / MILLISECOND
            };
            // Not evenly: 20 ms apart, and 180.
            let usual = |from: u64, to: u64| (from..to).step_by(200).flat_map(|at| [at, at + 20]);
            let over = 35_000 + over;
            for ms in usual(0, 30_000).skip(1).chain((30_000..35_000).step_by(4)).chain(usual(35_000, over)) {
                enter(ms);
            }
            // From the last one on.
            assert_eq!(enter(over + 2_000), 2_180);
            (1..20).for_each(|number| assert_eq!(enter(over + 2_000), 2_180, "{number}"));
            // What was silent for so long may take as long to tell all of it.
            for ms in usual(over + 2_100, over + 14_000) {
                let kept = enter(ms);
                assert!(ms <= over + 4_300 || kept <= 200, "{is_told}: {kept} ms, {} ms after", ms - over);
            }
        }
    }

    /// 3 datagrams a second in silence, 400 in a flood that is over: a second later it is known that they are not missing.
    #[test]
    fn a_pace_that_has_fallen_is_known_by_a_few_silences() {
        for is_told in [false, true] {
            let (standstill, mut gathering) = (Standstill::default(), Gathering::new(0, SECOND));
            let mut enter = |ms: u64| {
                let now = SECOND + ms * MILLISECOND;
                gathering.hear(now);
                let arrival = Arrival { now, uptime: ms as u32, granule: u32::from(is_told), waited: 0 };
                standstill.enter(&mut gathering, arrival);
                (gathering.kept().max(gathering.ago()[0])) / MILLISECOND
            };
            let few = |from: u64, to: u64| (from..to).step_by(330);
            let flood = (30_000..35_000).flat_map(|ms| [ms].repeat(if ms % 5 == 0 { 2 } else { 0 }));
            for ms in few(330, 30_000).chain(flood).chain(few(35_000, 50_000)) {
                let kept = enter(ms);
                assert!(ms < 36_700 || kept <= 330, "{is_told}: {kept} ms, {} ms after", ms - 35_000);
            }
            // It still is one that sends some, of which six are missing now.
            assert!(enter(52_000) >= 2_000, "{is_told}");
        }
    }

    /// Datagrams 20 ms apart, of an agent whose uptimes go in steps of a tenth of a second.
    #[test]
    fn steps_of_an_uptime_make_no_sample_older() {
        let (standstill, mut gathering) = (Standstill::default(), Gathering::new(0, SECOND));
        for number in 1..500u64 {
            let now = SECOND + number * 20 * MILLISECOND;
            gathering.hear(now);
            // What came first in its step waited least, the others for the rest of it, as far as is known.
            let (uptime, waited) = (number * 20 / 100 * 100, number * 20 % 100 * MILLISECOND);
            standstill.enter(&mut gathering, Arrival { now, uptime: uptime as u32, granule: 100, waited });
            let [oldest, newest] = gathering.ago().map(|nanos| nanos / MILLISECOND);
            assert!(number < 10 || (oldest, newest) == (20, 0), "{number}: {oldest} {newest}");
        }
    }

    /// An agent that looks twenty times a second at what there is to send was held up once: that is over.
    #[test]
    fn what_goes_on_in_its_rhythm_ends_a_standstill() {
        let (standstill, mut gathering) = (Standstill::default(), Gathering::new(0, SECOND));
        for tick in (0..600u64).filter(|tick| !(400..430).contains(tick)) {
            let samples = if tick == 430 { 31 } else { 1 } * 10;
            for number in 0..samples {
                let now = SECOND + tick * SECOND / 20 + number * 40_000;
                gathering.hear(now);
                let arrival = Arrival { now, uptime: 50 * tick as u32, granule: 1, waited: 0 };
                standstill.enter(&mut gathering, arrival);
                let ([oldest, _], most) = (gathering.ago(), if tick == 430 { 1_560 } else { 200 });
                assert!(tick < 100 || oldest <= most * MILLISECOND, "{tick} {number}: {oldest}");
                let is_over = !(430..=461).contains(&tick);
                assert!(tick < 100 || !is_over || gathering.kept() <= SECOND / 5, "{tick}: {}", gathering.kept());
            }
        }
        assert!(gathering.kept() <= SECOND / 5);
    }

    #[test]
    fn what_waited_on_the_way_is_as_old_as_its_agent_says() {
        let (standstill, mut gathering) = (Standstill::default(), Gathering::new(0, SECOND));
        let mut enter = |ms: u64, waited: u64| {
            let now = SECOND + ms * MILLISECOND;
            gathering.hear(now);
            let arrival = Arrival { now, uptime: (ms - waited) as u32, granule: 1, waited: waited * MILLISECOND };
            standstill.enter(&mut gathering, arrival);
            let [oldest, newest] = gathering.ago();
            [gathering.kept(), oldest, newest].map(|nanos| nanos / MILLISECOND)
        };
        for number in 1..2_000 {
            enter(20 * number, 0);
        }
        // One after the other, and each as long after it was sent as the way is slow: no silence shows that.
        for number in 1..1_000 {
            let [kept, oldest, newest] = enter(40_000 + 10 * number, 5 * number);
            assert!(
                kept >= 5 * number && oldest <= 5 * number + 30 && newest + 1 >= 5 * number,
                "{number}: {kept} {oldest} {newest}"
            );
        }
    }

    /// A batch a second, or what an agent sends that was held up: no part of it is new.
    #[test]
    fn what_is_sent_at_once_was_taken_since_what_was_sent_before() {
        let (standstill, mut gathering) = (Standstill::default(), Gathering::new(0, SECOND));
        for second in 1..40u64 {
            for number in 0..50 {
                let (now, uptime) = (SECOND + second * SECOND + number * MILLISECOND / 10, 1_000 * second as u32);
                gathering.hear(now);
                standstill.enter(&mut gathering, Arrival { now, uptime, granule: 1, waited: 0 });
                let [oldest, newest] = gathering.ago();
                let is_so =
                    (950..=1_050).contains(&(oldest / MILLISECOND)) && newest == 0 && gathering.kept() >= oldest;
                assert!(second < 5 || is_so, "{second} {number}: {oldest} {newest}");
                assert!(second < 5 || gathering.kept() <= SECOND, "{second} {number}: {}", gathering.kept());
            }
        }
    }

    /// A batch every few seconds: from one to the next, whether an uptime tells so or not.
    #[test]
    fn who_sends_a_batch_seldom_keeps_what_is_in_it_since_the_one_before() {
        for (period, is_told) in [1u64, 2, 3, 5, 8].into_iter().flat_map(|period| [(period, false), (period, true)]) {
            let (standstill, mut gathering) = (Standstill::default(), Gathering::new(0, SECOND));
            for batch in 0..30u64 {
                for number in u64::from(batch == 0)..15 {
                    let after = batch * period * SECOND + number * MILLISECOND / 10;
                    let (now, uptime) = (SECOND + after, (after / MILLISECOND) as u32);
                    gathering.hear(now);
                    standstill.enter(&mut gathering, Arrival { now, uptime, granule: u32::from(is_told), waited: 0 });
                    let (kept, [oldest, newest]) = (gathering.kept(), gathering.ago());
                    let least = period * SECOND - 5 * MILLISECOND;
                    let is_so = (least..=period * SECOND).contains(&kept) && oldest >= least && newest == 0;
                    assert!(batch == 0 || is_so, "{period} s, {is_told}, {batch} {number}: {kept} {oldest} {newest}");
                }
            }
        }
    }

    #[test]
    fn who_sends_at_once_what_counters_say_keeps_no_samples() {
        let standstill = Standstill::default();
        // Ten a second.
        let mut gathering = Gathering::new(0, SECOND);
        for number in 1..300 {
            assert_eq!(enter(&standstill, &mut gathering, SECOND + number * SECOND / 10), SECOND / 10);
        }
        // Counters of many interfaces now and then; what comes in between was not kept since.
        for after in [2u64, 4, 8] {
            let mut gathering = Gathering::new(0, SECOND);
            let mut now = SECOND;
            for number in 1..200 {
                now += if number % 20 == 0 { 30 * SECOND } else { MILLISECOND / 10 };
                enter(&standstill, &mut gathering, now);
            }
            assert_eq!(enter(&standstill, &mut gathering, now + after * SECOND), MOST, "{after} s");
        }
    }

    /// Such an agent that was held up: all of what it sends then may have been kept since before.
    #[test]
    fn who_sends_once_a_second_stands_still_when_one_second_is_left_out() {
        let (standstill, mut gathering) = (Standstill::default(), Gathering::new(0, SECOND));
        for second in (1..60u64).filter(|second| *second != 40) {
            let number = if second == 41 { 40 } else { 20 };
            for number in 0..number {
                let (now, uptime) = (SECOND + second * SECOND + number * MILLISECOND / 10, 1_000 * second as u32);
                gathering.hear(now);
                standstill.enter(&mut gathering, Arrival { now, uptime, granule: 1, waited: 0 });
                let (kept, is_held_up) = (gathering.kept(), second == 41);
                assert!(!is_held_up || kept >= 1_990 * MILLISECOND, "{second} {number}: {kept}");
                assert!(second < 5 || (40..50).contains(&second) || kept <= SECOND, "{second} {number}: {kept}");
            }
        }
    }
}
