//! What receiving is for: everything goes to the history, and past the board.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use weir_units::format::printable;
use weir_wire::signal::{Block, Channel, Values};

use super::board::{Board, End};
use super::changes::{self, Changes};
use super::derive::{self, Computed, Derive};
use super::events::Draft;
use super::losses::Losses;
use super::open::Open;
use super::settings;
use crate::api::Severity;
use crate::history::Writing;
use crate::receive::{News, Sink, Stream};

/// Keeps what is received.
pub(super) struct Keeper<'a> {
    open: &'a Open,
    /// Locked from the first block of a batch to its end.
    batch: Option<Batch<'a>>,
    /// Keys of a session's channels.
    sessions: HashMap<u64, HashMap<u16, Known, foldhash::fast::FixedState>, foldhash::fast::RandomState>,
    /// Sessions' channels by their keys, some of which may have another by now.
    holders: HashMap<u32, Vec<(u64, u16)>>,
    losses: Losses,
    derive: Derive,
    told: Vec<Draft>,
    changes: Changes,
    /// Channels of senders that have not said who they are.
    strangers: usize,
}

struct Batch<'a> {
    writing: Writing<'a>,
    board: MutexGuard<'a, Board>,
    now: Duration,
}

/// A channel of a session.
struct Known {
    /// In the history; `None`: there was no room.
    key: Option<u32>,
    channel: Arc<Channel>,
    /// Whether a block of this session has come.
    begun: bool,
    /// When room was looked for last, of one that has none.
    tried: Duration,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(open: &'a Open, derive: Derive) -> Self {
        Self {
            open,
            batch: None,
            sessions: HashMap::default(),
            holders: HashMap::new(),
            losses: Losses::default(),
            derive,
            told: Vec::new(),
            changes: Changes::default(),
            strangers: 0,
        }
    }
}

impl Keeper<'_> {
    /// The key of a channel in the history. Where all keys are taken, who `has_samples` comes before those of which nothing came yet, and
    /// everybody before those of which nothing has come for long.
    fn place(&mut self, stream: &Stream, channel: &Arc<Channel>, has_samples: bool) -> Option<u32> {
        let open = self.open;
        let Batch { writing, board, now } = self.batch.get_or_insert_with(|| Batch::begin(open));
        // Of no station: anybody can make any number of them. What is derived here, nobody else sends.
        let is_strange = stream.name.is_empty();
        let is_ours = stream.station == derive::STATION && self.derive.makes(&channel.name);
        let is_wanted = !is_ours
            && (!is_strange || self.strangers < MOST_STRANGERS)
            && (has_samples || writing.newcomers() < MOST_NEWCOMERS);
        // Whoever is shown it, or sent it on, sees the limits that are in force.
        let limits = board.limits(&stream.station, channel);
        let listed = Channel { limits, ..(**channel).clone() };
        let mut key = is_wanted.then(|| writing.channel(&stream.station, &stream.name, &listed)).flatten();
        if is_wanted && key.is_none() {
            let newcomer = if has_samples { writing.forget_newcomer() } else { None };
            if let Some((forgotten, before)) = newcomer.or_else(|| writing.forget(LIVES)) {
                open.count_forgotten();
                self.strangers -= usize::from(before.stream.is_empty()).min(self.strangers);
                board.forget(forgotten);
                self.derive.forget(forgotten);
                for (session, id) in self.holders.remove(&forgotten).unwrap_or_default() {
                    let known = self.sessions.get_mut(&session).and_then(|channels| channels.get_mut(&id));
                    // Once it has samples again it finds another place.
                    if let Some(known) = known {
                        known.key = known.key.filter(|&key| key != forgotten);
                    }
                }
                key = writing.channel(&stream.station, &stream.name, &listed);
            }
        }
        self.strangers += usize::from(is_strange && key.is_some());
        let Some(key) = key else {
            open.count_crowded();
            return None;
        };
        board.follow(key, &stream.station, channel, *now, open.wall());
        self.derive.follow(&stream.station, key, channel, |made, window| {
            keep_made(writing, board, (*now, open.wall()), made, window)
        });
        Some(key)
    }

    /// A channel of a session has a key.
    fn hold(&mut self, key: u32, holder: (u64, u16)) {
        let Self { sessions, holders, .. } = self;
        let holders = holders.entry(key).or_default();
        if holders.contains(&holder) {
            return;
        }
        holders.retain(|(session, id)| {
            let known = sessions.get(session).and_then(|channels| channels.get(id));
            known.is_some_and(|known| known.key == Some(key))
        });
        holders.push(holder);
    }

    /// What a reload has derived from now on is made of the channels that there are.
    fn take_up(&mut self, settings: &[settings::Derive]) {
        let open = self.open;
        let catalog = open.history.catalog();
        let Batch { mut writing, mut board, now } = Batch::begin(open);
        self.derive.change(settings).into_iter().for_each(|key| board.end(key, End::Derived));
        for listed in catalog.iter().filter(|listed| !listed.channel.name.is_empty()) {
            self.derive.follow(&listed.station, listed.key, &listed.channel, |made, window| {
                keep_made(&mut writing, &mut board, (now, open.wall()), made, window)
            });
        }
        self.changes.renewed(writing.take_renewed(), self.open, &mut self.told);
    }
}

impl Sink for Keeper<'_> {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        let key = self.place(stream, channel, false);
        let known = Known { key, channel: channel.clone(), begun: false, tried: self.open.now() };
        let channels = self.sessions.entry(stream.session).or_default();
        if let Some(before) = channels.insert(channel.id, known)
            && before.key == key
            && let Some(known) = channels.get_mut(&channel.id)
        {
            known.begun = before.begun;
        }
        if let Some(key) = key {
            self.hold(key, (stream.session, channel.id));
        }
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        let open = self.open;
        let now = self.batch.get_or_insert_with(|| Batch::begin(open)).now;
        let known = self.sessions.get_mut(&stream.session).and_then(|channels| channels.get_mut(&block.channel));
        // It has proven that it is more than a name.
        if let Some(known) = known
            && known.key.is_none()
            && (!known.begun || now >= known.tried + TRIES_APART)
        {
            (known.begun, known.tried) = (true, now);
            let channel = known.channel.clone();
            let key = self.place(stream, &channel, true);
            let known = self.sessions.get_mut(&stream.session).and_then(|channels| channels.get_mut(&block.channel));
            if let Some(known) = known {
                (known.key, known.begun) = (key, key.is_none());
            }
            if let Some(key) = key {
                self.hold(key, (stream.session, block.channel));
            }
        }
        let Batch { writing, board, now } = self.batch.get_or_insert_with(|| Batch::begin(open));
        let known = self.sessions.get_mut(&stream.session).and_then(|channels| channels.get_mut(&block.channel));
        let Some(Known { key: Some(key), channel, begun, .. }) = known else { return };
        let extent = writing.extent(*key).unwrap_or_default();
        if !std::mem::replace(begun, true) {
            let silence = board.silence(*key, *now);
            let (gap, step) = changes::due_meanwhile(block, extent, silence);
            if let Some(step) = step {
                self.changes.stepped(stream, (block.time, *now), step, &mut self.told);
            }
            if let Some(gap) = gap {
                writing.append(*key, &gap);
                open.count_restart(gap.samples());
                made(&mut self.derive, *key, &gap, writing, board, *now, &mut self.told);
            }
        } else if let Some(step) = changes::step(block, extent) {
            self.changes.stepped(stream, (block.time, *now), step, &mut self.told);
        }
        writing.append(*key, block);
        board.take(*key, block, *now, &mut self.told);
        made(&mut self.derive, *key, block, writing, board, *now, &mut self.told);
        // What another server derives lacks what its inputs lack: that is told there.
        if let Values::Gap(gap) = block.values
            && !channel.derived
        {
            self.losses.add(&stream.station, &channel.name, gap.cause, gap.samples, block.time);
        }
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        let wall = self.open.wall();
        self.open.hear(stream, news);
        let (severity, kind, text, remedy) = match news {
            News::Begun => (Severity::Info, "begin", "it is heard".to_owned(), None),
            News::Restarted => (Severity::Info, "restart", "it has begun anew".to_owned(), None),
            News::Twin => {
                let text = format!(
                    "another station of this name is heard, from {}: it is shown as {}",
                    stream.source,
                    printable(&stream.station)
                );
                (Severity::Major, "twin", text, Some("give each station a name of its own".to_owned()))
            }
            News::Silent => {
                let remedy = "weir monitor check tells whether its machine or the path is at fault";
                (Severity::Major, "silent", "nothing is heard of it".to_owned(), Some(remedy.to_owned()))
            }
            News::Back => (Severity::Info, "back", "it is heard again".to_owned(), None),
            News::Ended => (Severity::Info, "end", "it has ended".to_owned(), None),
        };
        if news == News::Ended
            && let Some(channels) = self.sessions.get(&stream.session)
        {
            let open = self.open;
            let Batch { writing, board, now } = self.batch.get_or_insert_with(|| Batch::begin(open));
            let mut ended: Vec<_> = channels.values().filter_map(|known| known.key).map(|key| (key, End::Station)).collect();
            // What is made of them has ended with them.
            while let Some((key, end)) = ended.pop() {
                board.end(key, end);
                let (keys, left) = self.derive.end(key);
                ended.extend(keys.into_iter().map(|key| (key, End::Input)));
                keep_computed(&mut self.derive, left, writing, board, *now, &mut self.told);
            }
        }
        if matches!(news, News::Begun | News::Restarted | News::Twin) && self.sessions.len() >= MOST_SESSIONS {
            // The receiver knows as many: what is here beyond it has forgotten.
            let heard = self.open.sessions();
            self.sessions.retain(|session, _| heard.contains(session));
        }
        let station = stream.station.clone();
        self.told.push(Draft { time_ns: wall, severity, station, channel: String::new(), kind, text, remedy });
    }

    fn flush(&mut self) {
        if let Some(batch) = &mut self.batch {
            self.changes.renewed(batch.writing.take_renewed(), self.open, &mut self.told);
        }
        self.batch = None;
        if let Some(settings) = self.open.changed_derive() {
            self.take_up(&settings);
        }
        let mut told = std::mem::take(&mut self.told);
        told.extend(self.losses.tell(self.open.now()));
        if !told.is_empty() {
            self.open.events.extend(told);
        }
    }
}

impl<'a> Batch<'a> {
    fn begin(open: &'a Open) -> Self {
        // Always in this order.
        Self { writing: open.history.write(), board: open.board(), now: open.now() }
    }
}

/// Keeps a channel that is made of others; returns its key.
fn keep_made(
    writing: &mut Writing<'_>,
    board: &mut Board,
    (now, wall): (Duration, i64),
    made: &Channel,
    window: Duration,
) -> Option<u32> {
    let limits = board.limits(derive::STATION, made);
    let key = writing.channel(derive::STATION, derive::STATION, &Channel { limits, ..made.clone() })?;
    board.follow(key, derive::STATION, &Arc::new(made.clone()), now, wall);
    // Nothing can come before the window is full.
    board.expect(key, window);
    Some(key)
}

/// Keeps what is made of a block, and what is made of that.
fn made(
    derive: &mut Derive,
    key: u32,
    block: &Block<'_>,
    writing: &mut Writing<'_>,
    board: &mut Board,
    now: Duration,
    told: &mut Vec<Draft>,
) {
    if derive.is_empty() {
        return;
    }
    let all = derive.take(key, block);
    keep_computed(derive, all, writing, board, now, told);
}

/// Keeps what was made, and what is made of that.
fn keep_computed(
    derive: &mut Derive,
    all: Vec<Computed>,
    writing: &mut Writing<'_>,
    board: &mut Board,
    now: Duration,
    told: &mut Vec<Draft>,
) {
    for computed in all {
        let block = computed.block();
        writing.append(computed.key, &block);
        board.take(computed.key, &block, now, told);
        // What was still to be computed of an input that has ended says of nothing more to come.
        if derive.has_ended(computed.key) {
            board.end(computed.key, End::Input);
        }
        made(derive, computed.key, &block, writing, board, now, told);
    }
}

/// A channel lives that has had something within this time: none of those gives way.
const LIVES: Duration = Duration::from_secs(10);

/// Channels at once of which nothing came yet: more are listed with their first samples.
const MOST_NEWCOMERS: usize = 1024;

/// From one look for room to the next, of a channel with samples.
const TRIES_APART: Duration = Duration::from_secs(1);

/// Channels of senders that have not said who they are: others need room, too.
const MOST_STRANGERS: usize = 256;

/// Sessions whose channels are known.
const MOST_SESSIONS: usize = 8192;

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Clock, Element, Rate};

    use super::*;
    use crate::history::{Bounds, History};
    use crate::receive;

    const RATE: Rate = Rate { per_second: 1000, per_sample: 1 };

    fn stream(session: u64) -> Arc<Stream> {
        let (station, source) = (format!("s{session}"), ([192, 0, 2, 1], 5110).into());
        Arc::new(Stream { session, station, name: "display".into(), source, clock: Clock::default() })
    }

    #[test]
    fn what_is_measured_otherwise_is_said_once_with_old_and_new() {
        let open = Open::new(Arc::new(History::new(Bounds::default())), &Arc::default(), receive::Open::default());
        let mut keeper = Keeper::new(&open, Derive::new(&[]));
        let stream = stream(1);
        let channel = |scale, unit: &str| {
            let (name, unit) = ("I".into(), unit.into());
            Arc::new(Channel { name, unit, scale, rate: RATE, ..Channel::default() })
        };
        let values = Values::Samples(Element::F32, &[0; 4]);
        let block = Block { channel: 0, first: 0, time: 0, rate: RATE, values };
        for (scale, unit) in [(1.0, "A"), (1.0, "A"), (0.5, "kA"), (0.5, "kA")] {
            keeper.channel(&stream, &channel(scale, unit));
            keeper.block(&stream, &block);
            keeper.flush();
        }
        let events: Vec<_> = open.events.since(0).into_iter().map(|event| (event.channel, event.text)).collect();
        let text = "it is measured otherwise from now on, and its curve begins anew: \
                    scale 0.5 (it was 1), unit \"kA\" (it was \"A\")";
        assert_eq!(events, [("I".to_owned(), text.to_owned())]);
        assert_eq!(open.history.extent(0).map(|extent| (extent.begin, extent.end)), Some((2, 4)));
    }

    /// Of what is made here nothing is missing that anybody should look for, either.
    #[test]
    fn what_is_made_of_others_ends_with_them() {
        let open = Open::new(Arc::new(History::new(Bounds::default())), &Arc::default(), receive::Open::default());
        let settings = |name: &str, expression: &str| settings::Derive {
            name: name.into(),
            unit: String::new(),
            expression: expression.into(),
            window: None,
        };
        let derive = Derive::new(&[settings("twice", "2 * {s1/I}"), settings("more", "{derived/twice} + 1")]);
        let mut keeper = Keeper::new(&open, derive);
        let stream = stream(1);
        keeper.channel(&stream, &Arc::new(Channel { name: "I".into(), rate: RATE, bucket: 1, ..Channel::default() }));
        let values = Values::Samples(Element::F32, &[0; 4]);
        keeper.block(&stream, &Block { channel: 0, first: 0, time: 0, rate: RATE, values });
        keeper.stream(&stream, News::Ended);
        keeper.flush();
        let told = open.board().look(open.now() + Duration::from_secs(60), 9);
        let told: Vec<_> = told.iter().map(|draft| (draft.channel.as_str(), draft.severity)).collect();
        let info = Severity::Info;
        assert_eq!(told, [("I", info), ("twice", info), ("more", info)]);
    }

    /// What the other one sends of the time that both have comes behind the end of the one.
    #[test]
    fn what_is_made_of_two_stations_ends_with_the_first_of_them() {
        let settings = |name: &str, expression: &str| settings::Derive {
            name: name.into(),
            unit: String::new(),
            expression: expression.into(),
            window: None,
        };
        for (expression, ends) in [("{s1/I} + {s2/I}", 1), ("{s2/I} + {s1/I}", 1), ("{s1/I} + {s2/I}", 2)] {
            let open = Open::new(Arc::new(History::new(Bounds::default())), &Arc::default(), receive::Open::default());
            let derive = Derive::new(&[settings("sum", expression), settings("more", "{derived/sum} + 1")]);
            let mut keeper = Keeper::new(&open, derive);
            let streams = [stream(1), stream(2)];
            let channel = Arc::new(Channel { name: "I".into(), rate: RATE, ..Channel::default() });
            streams.iter().for_each(|stream| keeper.channel(stream, &channel));
            let values = Values::Samples(Element::F32, &[0; 4]);
            let block = Block { channel: 0, first: 0, time: 0, rate: RATE, values };
            let (one, other) = if ends == 1 { (&streams[0], &streams[1]) } else { (&streams[1], &streams[0]) };
            keeper.block(one, &block);
            keeper.stream(one, News::Ended);
            keeper.block(other, &block);
            keeper.flush();
            let all = open.history.catalog();
            let sums = all.iter().filter(|listed| listed.station == "derived");
            let sums: Vec<_> = sums.filter_map(|listed| open.history.extent(listed.key)).collect();
            assert!(sums.len() == 2 && sums.iter().all(|extent| extent.end > extent.begin), "{sums:?}");
            let look = |seconds| {
                let told = open.board().look(open.now() + Duration::from_secs(seconds), 9);
                let told = told.into_iter().filter(|draft| draft.station == "derived");
                told.map(|draft| (draft.channel, draft.severity, draft.text)).collect::<Vec<_>>()
            };
            let text = || "a channel that it is made of has ended".to_owned();
            let ended = |name: &str| (name.to_owned(), Severity::Info, text());
            assert_eq!(look(60), [ended("sum"), ended("more")], "{expression}, {ends}");
            assert!(look(120).is_empty(), "once");
        }
    }

    #[test]
    fn who_lost_its_place_writes_to_no_other_and_finds_one_with_samples() {
        let history = History::new(Bounds { channels: 2, ..Bounds::default() });
        let open = Open::new(Arc::new(history), &Arc::default(), receive::Open::default());
        let mut keeper = Keeper::new(&open, Derive::new(&[]));
        let streams = [1, 2, 3].map(stream);
        let channel = Arc::new(Channel { name: "c".into(), rate: RATE, ..Channel::default() });
        streams.iter().for_each(|stream| keeper.channel(stream, &channel));
        let values = Values::Samples(Element::F32, &[0; 4]);
        let block = Block { channel: 0, first: 0, time: 0, rate: RATE, values };
        // The third takes the place of the first, that one the second's; for the second there is none.
        for index in [2, 0, 1] {
            keeper.block(&streams[index], &block);
        }
        let held: usize = keeper.holders.values().map(Vec::len).sum();
        keeper.flush();
        let stations: Vec<_> = open.history.catalog().iter().map(|listed| listed.station.clone()).collect();
        assert_eq!((held, stations), (2, vec!["s3".to_owned(), "s1".to_owned()]));
        for key in 0..2 {
            assert_eq!(open.history.extent(key).map(|extent| extent.end - extent.begin), Some(1));
        }
    }
}
