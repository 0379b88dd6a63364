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
use weir_signal::history::{ChannelId, Listed, Placed, Writing};
use weir_signal::receive::{News, Sink, Stream};

/// Keeps what is received.
pub(super) struct Keeper<'a> {
    open: &'a Open,
    /// Locked from the first block of a batch to its end.
    batch: Option<Batch<'a>>,
    /// Sessions' channels.
    sessions: HashMap<u64, HashMap<u16, Known, foldhash::fast::FixedState>, foldhash::fast::RandomState>,
    losses: Losses,
    derive: Derive,
    told: Vec<Draft>,
    changes: Changes,
}

struct Batch<'a> {
    writing: Writing<'a>,
    board: MutexGuard<'a, Board>,
    now: Duration,
}

/// A channel of a session.
struct Known {
    /// In the history; `None`: no block has come, or there was no room.
    id: Option<ChannelId>,
    channel: Arc<Channel>,
    /// Whether a block of this session has come.
    begun: bool,
    /// When room was looked for last.
    tried: Option<Duration>,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(open: &'a Open, derive: Derive) -> Self {
        Self {
            open,
            batch: None,
            sessions: HashMap::default(),
            losses: Losses::default(),
            derive,
            told: Vec::new(),
            changes: Changes::default(),
        }
    }
}

impl Keeper<'_> {
    /// Where a channel is kept in the history, if there is room.
    fn place(&mut self, stream: &Stream, channel: &Arc<Channel>) -> Option<ChannelId> {
        let open = self.open;
        let Batch { writing, board, now } = self.batch.get_or_insert_with(|| Batch::begin(open));
        // What is derived here, nobody else sends.
        let is_ours = stream.station == derive::STATION && self.derive.makes(&channel.name);
        // Whoever is shown it, or sent it on, sees the limits that are in force.
        let limits = board.limits(&stream.station, channel);
        let listed = Channel { limits, ..(**channel).clone() };
        let placed = if is_ours { None } else { writing.channel(&stream.station, &stream.name, &listed) };
        let Some(placed) = placed else {
            open.count_crowded();
            return None;
        };
        let (id, wall) = (placed.id, open.wall());
        if let Some(before) = settle(placed, board, open) {
            self.changes.renewed(&before, &listed, (*now, wall), &mut self.told);
        }
        board.follow(id.key, &stream.station, channel, *now, wall);
        self.derive
            .follow(&stream.station, id, channel, |made, window| keep_made(writing, board, (open, *now), made, window));
        Some(id)
    }

    fn known(&mut self, session: u64, number: u16) -> Option<&mut Known> {
        self.sessions.get_mut(&session)?.get_mut(&number)
    }

    /// What a reload has derived from now on is made of the channels that there are.
    fn take_up(&mut self, settings: &[settings::Derive]) {
        let open = self.open;
        let catalog = open.history.catalog();
        let Batch { mut writing, mut board, now } = Batch::begin(open);
        self.derive.change(settings).into_iter().for_each(|id| board.end(id.key, End::Derived));
        for listed in catalog.iter() {
            self.derive.follow(&listed.station, listed.id(), &listed.channel, |made, window| {
                keep_made(&mut writing, &mut board, (open, now), made, window)
            });
        }
    }
}

impl Sink for Keeper<'_> {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        let before = self.known(stream.session, channel.id).and_then(|known| Some((known.id?, known.begun)));
        // It is listed with its first block; from then on with what is known of it.
        let id = before.and_then(|_| self.place(stream, channel));
        let begun = before.is_some_and(|(before, begun)| begun && id == Some(before));
        let known = Known { id, channel: channel.clone(), begun, tried: None };
        self.sessions.entry(stream.session).or_default().insert(channel.id, known);
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        let open = self.open;
        let Batch { writing, now, .. } = self.batch.get_or_insert_with(|| Batch::begin(open));
        let now = *now;
        let known = self.sessions.get_mut(&stream.session).and_then(|channels| channels.get_mut(&block.channel));
        let Some(known) = known else { return };
        if known.id.is_none_or(|id| writing.extent(id).is_none()) {
            if known.tried.is_some_and(|tried| now < tried + TRIES_APART) {
                return;
            }
            let channel = known.channel.clone();
            let id = self.place(stream, &channel);
            let Some(known) = self.known(stream.session, block.channel) else { return };
            (known.id, known.begun, known.tried) = (id, false, Some(now));
        }
        let Batch { writing, board, now } = self.batch.get_or_insert_with(|| Batch::begin(open));
        let known = self.sessions.get_mut(&stream.session).and_then(|channels| channels.get_mut(&block.channel));
        let Some(Known { id: Some(id), channel, begun, .. }) = known else { return };
        let (id, extent) = (*id, writing.extent(*id).unwrap_or_default());
        let begun = std::mem::replace(begun, true);
        let due = || changes::due_meanwhile(block, extent, open.history.span());
        if let Some(gap) = if begun { None } else { due() } {
            writing.append(id, &gap);
            open.count_restart(gap.samples());
            made(&mut self.derive, id, &gap, writing, board, *now, &mut self.told);
        } else if let Some(step) = changes::step(block, extent).filter(|step| begun || *step < 0) {
            self.changes.stepped(stream, (block.time, *now), step, &mut self.told);
        }
        writing.append(id, block);
        board.take(id.key, block, *now, &mut self.told);
        made(&mut self.derive, id, block, writing, board, *now, &mut self.told);
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
            let mut ended: Vec<_> =
                channels.values().filter_map(|known| known.id).map(|id| (id, End::Station)).collect();
            // What is made of them has ended with them.
            while let Some((id, end)) = ended.pop() {
                board.end(id.key, end);
                let (made, left) = self.derive.end(id);
                ended.extend(made.into_iter().map(|id| (id, End::Input)));
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

/// Lets go of the channel that had a place until now; returns what the channel itself was measured as.
fn settle(placed: Placed, board: &mut Board, open: &Open) -> Option<Arc<Listed>> {
    if placed.is_another {
        board.forget(placed.id.key);
        open.count_forgotten();
    }
    placed.renewed
}

/// Keeps a channel that is made of others; returns by which it is read.
fn keep_made(
    writing: &mut Writing<'_>,
    board: &mut Board,
    (open, now): (&Open, Duration),
    made: &Channel,
    window: Duration,
) -> Option<ChannelId> {
    let limits = board.limits(derive::STATION, made);
    let placed = writing.channel(derive::STATION, derive::STATION, &Channel { limits, ..made.clone() })?;
    let id = placed.id;
    settle(placed, board, open);
    board.follow(id.key, derive::STATION, &Arc::new(made.clone()), now, open.wall());
    // Nothing can come before the window is full.
    board.expect(id.key, window);
    Some(id)
}

/// Keeps what is made of a block, and what is made of that.
fn made(
    derive: &mut Derive,
    id: ChannelId,
    block: &Block<'_>,
    writing: &mut Writing<'_>,
    board: &mut Board,
    now: Duration,
    told: &mut Vec<Draft>,
) {
    if derive.is_empty() {
        return;
    }
    let all = derive.take(id, block);
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
        let (id, block) = (computed.id, computed.block.block());
        if !writing.append(id, &block) {
            // Its place is another's by now; it finds one when what is known of an input changes.
            derive.forget(id);
            continue;
        }
        board.take(id.key, &block, now, told);
        // What was still to be computed of an input that has ended says of nothing more to come.
        if derive.has_ended(id) {
            board.end(id.key, End::Input);
        }
        made(derive, id, &block, writing, board, now, told);
    }
}

/// From one look for room to the next, of a channel with samples.
const TRIES_APART: Duration = Duration::from_secs(1);

/// Sessions whose channels are known.
const MOST_SESSIONS: usize = 8192;

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Clock, Element, Rate};

    use super::*;
    use weir_signal::history::{Bounds, History};
    use weir_signal::receive;

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
    fn who_lost_its_place_finds_another_with_its_next_samples() {
        let history = History::new(Bounds { channels: 1, quiet: Duration::ZERO, ..Bounds::default() });
        let open = Open::new(Arc::new(history), &Arc::default(), receive::Open::default());
        let mut keeper = Keeper::new(&open, Derive::new(&[]));
        let streams = [1, 2].map(stream);
        let channel = Arc::new(Channel { name: "c".into(), rate: RATE, ..Channel::default() });
        streams.iter().for_each(|stream| keeper.channel(stream, &channel));
        let values = Values::Samples(Element::F32, &[0; 4]);
        let block = Block { channel: 0, first: 0, time: 0, rate: RATE, values };
        for index in [0, 1, 1] {
            keeper.block(&streams[index], &block);
            keeper.flush();
        }
        keeper.flush();
        let listed: Vec<_> = open.history.catalog().iter().map(|one| (one.station.clone(), one.id())).collect();
        assert_eq!(listed, [("s2".to_owned(), ChannelId { key: 0, generation: 1 })]);
        assert_eq!(open.history.extent(0).map(|extent| extent.end - extent.begin), Some(2));
    }
}
