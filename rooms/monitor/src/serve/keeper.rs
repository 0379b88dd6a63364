//! What receiving is for: everything goes to the history. What is made of it, and whoever watches it, read it there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use weir_units::format::printable;
use weir_wire::signal::{Block, Channel};

use super::changes;
use super::derive::Derive;
use super::events::Draft;
use super::open::Open;
use crate::api::Severity;
use weir_signal::history::{ChannelId, Writing};
use weir_signal::receive::{News, Sink, Stream};

/// Keeps what is received.
pub(super) struct Keeper<'a> {
    open: &'a Open,
    /// Locked from the first block of a batch to its end; and when that began.
    batch: Option<(Writing<'a>, Duration)>,
    /// Sessions' channels.
    sessions: HashMap<u64, HashMap<u16, Known, foldhash::fast::FixedState>, foldhash::fast::RandomState>,
    derive: Derive,
    told: Vec<Draft>,
    /// When a station's clock was said to step.
    stepped: HashMap<String, Duration>,
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
    pub(super) fn new(open: &'a Open) -> Self {
        Self {
            open,
            batch: None,
            sessions: HashMap::default(),
            derive: Derive::default(),
            told: Vec::new(),
            stepped: HashMap::new(),
        }
    }

    fn batch(&mut self) -> &mut (Writing<'a>, Duration) {
        self.batch.get_or_insert_with(|| (self.open.history.write(), self.open.now()))
    }

    /// Where a channel is kept in the history, if there is room.
    fn place(&mut self, stream: &Stream, channel: &Channel) -> Option<ChannelId> {
        let (station, watching) = (&stream.station, self.open.watching());
        let (writing, _) = self.batch();
        // What is derived here, nobody else sends.
        let is_ours = watching.made(station, &channel.name).is_some();
        let id = if is_ours { None } else { writing.channel(station, &stream.name, channel) };
        match id {
            Some(id) => writing.set_limits(id.key, watching.limits(station, channel)),
            None => self.open.count_crowded(),
        }
        id
    }

    fn known(&mut self, session: u64, number: u16) -> Option<&mut Known> {
        self.sessions.get_mut(&session)?.get_mut(&number)
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
        let (writing, now) = self.batch.get_or_insert_with(|| (open.history.write(), open.now()));
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
        let Some(known) = self.known(stream.session, block.channel) else { return };
        let (Some(id), begun) = (known.id, std::mem::replace(&mut known.begun, true)) else { return };
        let (writing, _) = self.batch();
        let extent = writing.extent(id).unwrap_or_default();
        if let Some(gap) = changes::due_meanwhile(block, extent, open.history.span()).filter(|_| !begun) {
            writing.append(id, &gap);
            open.count_restart(gap.samples());
        } else if let Some(step) = changes::step(block, extent).filter(|step| begun || *step < 0)
            && changes::is_due(&mut self.stepped, &stream.station, now)
        {
            self.told.push(changes::told_step(stream, block.time, step));
        }
        self.batch().0.append(id, block);
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
            let ended: Vec<_> = channels.values().filter_map(|known| known.id).collect();
            ended.into_iter().for_each(|id| self.batch().0.end(id));
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
        self.derive.look(&self.open.history, &self.open.watching());
        if !self.told.is_empty() {
            self.open.events.extend(std::mem::take(&mut self.told));
        }
    }
}

/// From one look for room to the next, of a channel with samples.
const TRIES_APART: Duration = Duration::from_secs(1);

/// Sessions whose channels are known.
const MOST_SESSIONS: usize = 8192;

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Clock, Element, Rate, Values};

    use super::super::settings::{self, Watching};
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
        let mut keeper = Keeper::new(&open);
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
            open.look();
        }
        let events: Vec<_> = open.events.since(0).into_iter().map(|event| (event.channel, event.text)).collect();
        let text = "it is measured otherwise from now on, and its curve begins anew: \
                    scale 0.5 (it was 1), unit \"kA\" (it was \"A\")";
        assert_eq!(events, [("I".to_owned(), text.to_owned())]);
        assert_eq!(open.history.extent(0).map(|extent| (extent.begin, extent.end)), Some((2, 4)));
    }

    /// That derives these, by name and expression.
    fn deriving(all: &[(&str, &str)]) -> Open {
        let made = |&(name, expression): &(&str, &str)| settings::Derive {
            name: name.into(),
            unit: String::new(),
            expression: expression.into(),
            window: None,
        };
        let watching = Watching { derive: all.iter().map(made).collect(), ..Watching::default() };
        let history = Arc::new(History::new(Bounds::default()));
        Open::new(history, &Arc::new(watching), receive::Open::default())
    }

    /// What is said of stale channels so many seconds from now.
    fn look(open: &Open, seconds: u64) -> Vec<(String, Severity, String)> {
        let now = open.now() + Duration::from_secs(seconds);
        let told = open.board().look(&open.history, &open.watching(), now, 9);
        told.into_iter().map(|draft| (draft.channel, draft.severity, draft.text)).collect()
    }

    /// Of what is made here nothing is missing that anybody should look for, either.
    #[test]
    fn what_is_made_of_others_ends_with_them() {
        let open = deriving(&[("twice", "2 * {s1/I}"), ("more", "{derived/twice} + 1")]);
        let mut keeper = Keeper::new(&open);
        let stream = stream(1);
        keeper.channel(&stream, &Arc::new(Channel { name: "I".into(), rate: RATE, bucket: 1, ..Channel::default() }));
        let values = Values::Samples(Element::F32, &[0; 4]);
        keeper.block(&stream, &Block { channel: 0, first: 0, time: 0, rate: RATE, values });
        keeper.stream(&stream, News::Ended);
        keeper.flush();
        look(&open, 0);
        let told: Vec<_> = look(&open, 60).into_iter().map(|(channel, severity, _)| (channel, severity)).collect();
        assert_eq!(told, ["I", "twice", "more"].map(|channel| (channel.to_owned(), Severity::Info)));
    }

    /// What the other one sends of the time that both have comes behind the end of the one.
    #[test]
    fn what_is_made_of_two_stations_ends_with_the_first_of_them() {
        for (expression, ends) in [("{s1/I} + {s2/I}", 1), ("{s2/I} + {s1/I}", 1), ("{s1/I} + {s2/I}", 2)] {
            let open = deriving(&[("sum", expression), ("more", "{derived/sum} + 1")]);
            let mut keeper = Keeper::new(&open);
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
            look(&open, 0);
            let all = open.history.catalog();
            let sums = all.iter().filter(|listed| listed.station == "derived");
            let sums: Vec<_> = sums.filter_map(|listed| open.history.extent(listed.key)).collect();
            assert!(sums.len() == 2 && sums.iter().all(|extent| extent.end > extent.begin), "{sums:?}");
            let text = || "a channel that it is made of has ended".to_owned();
            let ended = |name: &str| (name.to_owned(), Severity::Info, text());
            let mut told = look(&open, 60);
            told.retain(|(channel, ..)| channel != "I");
            assert_eq!(told, [ended("sum"), ended("more")], "{expression}, {ends}");
            assert!(look(&open, 120).is_empty(), "once");
        }
    }

    #[test]
    fn who_lost_its_place_finds_another_with_its_next_samples() {
        let history = History::new(Bounds { channels: 1, quiet: Duration::ZERO, ..Bounds::default() });
        let open = Open::new(Arc::new(history), &Arc::default(), receive::Open::default());
        let mut keeper = Keeper::new(&open);
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
