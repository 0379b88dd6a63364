//! A WebSocket: texts (JSON) say what is there and how it is, binary messages are datagrams of data as in `wire/signal`, but longer.
//!
//! ```text
//! client  {"ask":7,"watch":[3,8],"columns":1200,"span_ms":60000}     from now on
//!         {"ask":8,"watch":[3],"columns":1200,"span_ms":500,"from_ms":1789...}   a part of the past
//! server  {"channels":[...]} what is new of them    {"begin":{"ask":7,"feeds":[{"key":3,"bucket":32}]}} what comes, from its beginning
//!         binary ...                                 {"whole":{"ask":7,"keys":[3]}} all that there was; what follows is new
//!         {"states":[...]}  {"events":[...]}         {"clock":{"time_ms":...}} every second
//! ```
//!
//! What a client has not taken is one message, of 1.2 MB at most (`feed.rs`), or one text: a long list is told in several.

mod ask;
mod feed;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::ws::Message as Frame;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};
use weir_service::http::{End, Said, Socket};
use weir_wire::signal::{Cause, Clock, Flags, Header, Kind};

use super::routes::millis;
use super::rows::bucket;
use super::{Acknowledged, Api, Event, News, State, is_loss, words};
use ask::Ask;
use feed::{Feed, Message};
use weir_signal::history::{Catalog, Listed};
use weir_signal::thin::BlockThinner;

/// Whether a client can ask this.
pub(crate) fn is_question(text: &str) -> bool {
    serde_json::from_str::<Ask>(text).is_ok_and(|ask| ask.check().is_ok())
}

/// One client, until it goes.
pub(super) async fn follow(api: Arc<Api>, socket: Socket) {
    let mut client = Client {
        socket,
        ask: None,
        feeds: Vec::new(),
        known: Catalog::default(),
        states: HashMap::new(),
        event: 0,
        message: Message::new(),
        sequence: 0,
        next: 0,
        api,
    };
    let end = client.serve().await;
    client.socket.end(end).await;
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    None,
    /// Something new: at once, or when the last message is old enough, with whatever comes until then.
    Next,
    /// More than one message of what there is.
    Now,
}

struct Client {
    api: Arc<Api>,
    socket: Socket,
    ask: Option<Ask>,
    feeds: Vec<Feed>,
    /// Channels as they were told.
    known: Catalog,
    states: HashMap<u32, State>,
    /// The last event that was told.
    event: u64,
    message: Message,
    sequence: u64,
    /// Feed that is pulled first, so that none waits for the others.
    next: usize,
}

impl Client {
    async fn serve(&mut self) -> End {
        match self.converse().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn converse(&mut self) -> Result<std::convert::Infallible, End> {
        let mut batches = self.api.batches.subscribe();
        let mut news = self.api.news.subscribe();
        // The next message of samples may go then.
        let mut due = Instant::now();
        let mut work = Work::None;
        let peers = self.api.shown.peers();
        let (version, read_only) = (env!("CARGO_PKG_VERSION"), self.api.read_only);
        let causes: serde_json::Map<_, _> = Cause::ALL.into_iter().map(in_words).collect();
        let hello = json!({"version": version, "peers": peers, "read_only": read_only, "causes": causes});
        self.tell(json!({"hello": hello})).await?;
        self.tell_channels().await?;
        let known = self.api.news.borrow().clone();
        self.tell_news(&known).await?;
        loop {
            tokio::select! {
                biased;
                said = self.socket.next() => match said? {
                    Said::Text(text) => {
                        let ask = serde_json::from_str(&text).map_err(|error| End::Mistaken(error.to_string()))?;
                        self.begin(ask).await?;
                        work = Work::Now;
                    }
                    Said::Second => {
                        if self.tell_channels().await? {
                            work = Work::Now;
                        }
                        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                        self.tell(json!({"clock": {"time_ms": now.as_secs_f64() * 1e3}})).await?;
                    }
                },
                changed = news.changed() => {
                    changed.map_err(|_| End::Gone)?;
                    let known = news.borrow_and_update().clone();
                    self.tell_news(&known).await?;
                }
                changed = batches.changed(), if work == Work::None && !self.feeds.is_empty() => {
                    changed.map_err(|_| End::Gone)?;
                    work = Work::Next;
                }
                () = until(due), if work == Work::Next => {
                    due = Instant::now() + pause(self.api.sockets.open());
                    work = self.push().await?;
                }
                // Others have their turn first.
                () = yield_now(), if work == Work::Now => work = self.push().await?,
            }
        }
    }

    /// From now on that is sent; what is sent already as it is wanted goes on.
    async fn begin(&mut self, ask: Ask) -> Result<(), End> {
        ask.check().map_err(End::Mistaken)?;
        self.tell_channels().await?;
        let api = self.api.clone();
        let history = api.shown.history();
        let same = self.ask.as_ref().is_some_and(|before| before.is_like(&ask));
        let mut old: HashMap<u16, Feed> = match same {
            true => self.feeds.drain(..).map(|feed| (feed.key, feed)).collect(),
            false => HashMap::new(),
        };
        self.feeds.clear();
        let mut watched: Vec<&Arc<Listed>> =
            ask.watch.iter().filter_map(|&key| self.known.get(usize::from(key))).collect();
        watched.dedup_by_key(|listed| listed.key);
        // The newest of all is at the right edge of the screen.
        let ends = watched.iter().filter_map(|listed| history.extent(listed.key)).map(|extent| extent.end_time);
        let newest = ends.max().unwrap_or_default();
        let (from, to) = ask.range(newest);
        let mut begun = Vec::new();
        for listed in watched {
            // The history has no more channels than that.
            let Ok(key) = u16::try_from(listed.key) else { continue };
            if let Some(feed) = old.remove(&key) {
                self.feeds.push(feed);
                continue;
            }
            let bucket = bucket(listed.channel.rate, ask.span_ms / 1e3, ask.columns);
            // The last there was is told of one that stands still, too.
            let last = history.extent(listed.key).map_or(0, |extent| extent.end.saturating_sub(1).max(extent.begin));
            let mut cursor = history.cursor(listed.id(), from);
            let until = to.map(|to| history.cursor(listed.id(), to).at);
            cursor.at = if until.is_none() { cursor.at.min(last) } else { cursor.at };
            let feed = Feed { key, thinner: BlockThinner::new(bucket), cursor, until, whole: false };
            begun.push(feed.begin());
            self.feeds.push(feed);
        }
        self.next = 0;
        let begin = json!({"begin": {"ask": ask.ask, "feeds": begun}});
        self.ask = Some(ask);
        self.tell(begin).await
    }

    /// Sends one message of what is new, and says whether there may be more of it.
    async fn push(&mut self) -> Result<Work, End> {
        let api = self.api.clone();
        let (mut budget, mut more, mut whole) = (MOST_LOOKED, false, Vec::new());
        let count = self.feeds.len();
        for turn in 0..count {
            let at = (self.next + turn) % count;
            let feed = &mut self.feeds[at];
            if feed.pull(api.shown.history(), &mut self.message, &mut budget) {
                // It is the first of the next message.
                self.next = at;
                more = true;
                break;
            }
            if !feed.whole {
                feed.whole = true;
                whole.push(feed.key);
            }
        }
        if !self.message.is_empty() {
            let header = Header {
                kind: Kind::Data,
                flags: Flags::default(),
                clock: Clock::default(),
                count: 0,
                session: self.ask.as_ref().map_or(0, |ask| ask.ask.into()),
                sequence: self.sequence,
            };
            self.sequence += 1;
            let bytes = self.message.finish(header);
            api.messages.fetch_add(1, Relaxed);
            api.bytes.fetch_add(bytes.len() as u64, Relaxed);
            self.socket.send(Frame::Binary(bytes.into())).await?;
        }
        if !whole.is_empty() {
            let ask = self.ask.as_ref().map_or(0, |ask| ask.ask);
            self.tell(json!({"whole": {"ask": ask, "keys": whole}})).await?;
        }
        Ok(if more { Work::Now } else { Work::None })
    }

    /// Says which channels there are that were not told, or were told otherwise. What is measured otherwise begins anew; returns whether
    /// something does.
    async fn tell_channels(&mut self) -> Result<bool, End> {
        let api = self.api.clone();
        let catalog = api.shown.history().catalog();
        let is_new =
            |(at, listed): &(usize, &Arc<Listed>)| self.known.get(*at).is_none_or(|known| !Arc::ptr_eq(known, listed));
        let fresh: Vec<_> = catalog.iter().enumerate().filter(is_new).map(|(_, listed)| listed.clone()).collect();
        self.known = catalog;
        self.tell_list("channels", &fresh, |listed| described(listed)).await?;
        // Feeds of what is measured otherwise begin anew: what of them a client has, it has as what they were.
        let mut begun = Vec::new();
        for feed in &mut self.feeds {
            let id = self.known[usize::from(feed.key)].id();
            if feed.cursor.id != id {
                let (thinner, cursor) =
                    (BlockThinner::new(feed.thinner.bucket()), api.shown.history().cursor(id, i64::MIN));
                *feed = Feed { thinner, cursor, whole: false, ..*feed };
                begun.push(feed.begin());
            }
        }
        if begun.is_empty() {
            return Ok(false);
        }
        let ask = self.ask.as_ref().map_or(0, |ask| ask.ask);
        self.tell(json!({"begin": {"ask": ask, "feeds": begun}})).await?;
        Ok(true)
    }

    /// Says what is new of states and events.
    async fn tell_news(&mut self, news: &News) -> Result<(), End> {
        let changed: Vec<&State> =
            news.states.iter().filter(|state| self.states.get(&state.key) != Some(state)).collect();
        if !changed.is_empty() {
            let told = |state: &&State| {
                let mut told = stated(state);
                told["key"] = json!(state.key);
                told
            };
            self.states.extend(changed.iter().map(|state| (state.key, (*state).clone())));
            self.tell_list("states", &changed, told).await?;
        }
        let before = news.events.partition_point(|event| event.id <= self.event);
        let fresh: Vec<&Arc<Event>> = news.events.iter().skip(before).collect();
        let told = |event: &&Arc<Event>| {
            json!({
                "id": event.id, "time_ms": millis(event.time_ns), "severity": event.severity,
                "station": event.station, "channel": event.channel, "kind": event.kind, "text": event.text,
                "remedy": event.remedy,
            })
        };
        self.event = self.event.max(news.newest());
        self.tell_list("events", &fresh, told).await
    }

    /// `{"name":[...]}`, in as many texts as it takes: one of them is held while the client does not take it, however long the list is.
    async fn tell_list<T>(&mut self, name: &str, list: &[T], describe: fn(&T) -> Value) -> Result<(), End> {
        let mut text = String::new();
        for (at, one) in list.iter().enumerate() {
            let before = if text.is_empty() { format!("{{\"{name}\":[") } else { ",".to_owned() };
            text += &before;
            text += &describe(one).to_string();
            if text.len() >= FULL_TEXT || at + 1 == list.len() {
                text += "]}";
                self.socket.send(Frame::Text(std::mem::take(&mut text).into())).await?;
            }
        }
        Ok(())
    }

    /// Of what is told the text alone is held while the client does not take it.
    async fn tell(&mut self, told: Value) -> Result<(), End> {
        let frame = Frame::Text(told.to_string().into());
        drop(told);
        self.socket.send(frame).await
    }
}

impl Feed {
    /// As a client is told that it begins.
    fn begin(&self) -> Value {
        json!({"key": self.key, "bucket": self.thinner.bucket(), "first": self.cursor.at})
    }
}

/// What pages say of a cause.
fn in_words(cause: Cause) -> (String, Value) {
    let (place, remedy) = words(cause);
    (cause.name().to_owned(), json!({"place": place, "remedy": remedy, "loss": is_loss(cause)}))
}

/// A channel, as pages and REST are told it.
pub(super) fn described(listed: &Listed) -> Value {
    let channel = &listed.channel;
    let limits = listed.limits;
    json!({
        "key": listed.key,
        "station": listed.station,
        "stream": listed.stream,
        "name": channel.name,
        "unit": channel.unit,
        "description": channel.description,
        "origin": channel.origin,
        "derived": channel.derived,
        "rate_hz": channel.rate.per_s(),
        "scale": channel.scale,
        "offset": channel.offset,
        "display": [limits.display_low, limits.display_high],
        "limits": [limits.very_low, limits.low, limits.high, limits.very_high],
    })
}

/// How a channel is, likewise.
pub(super) fn stated(state: &State) -> Value {
    let word = |word: &Arc<Acknowledged>| json!({"by": word.by, "time_ms": millis(word.time_ns)});
    json!({
        "alarm": state.alarm,
        "stale": state.stale,
        "since_ms": millis(state.since_ns),
        "unacknowledged": state.unacknowledged,
        "acknowledged": state.acknowledged.as_ref().map(word),
    })
}

/// What is due is not waited for: timers count whole milliseconds.
async fn until(due: Instant) {
    if Instant::now() < due {
        sleep_until(due).await;
    }
}

/// From one message of samples to the next, where so many clients follow: a few have what is new at once, many have a message in each
/// frame of a screen.
fn pause(clients: usize) -> Duration {
    let clients = u32::try_from(clients).unwrap_or(u32::MAX);
    SHORTEST_PAUSE.saturating_mul(clients).clamp(SHORTEST_PAUSE, FRAME)
}

/// A frame of a screen: who has what is new in each of them sees it move evenly.
const FRAME: Duration = Duration::from_micros(16_600);

/// A quarter of it: what comes in between waits no longer than a bucket of a station takes.
const SHORTEST_PAUSE: Duration = Duration::from_millis(4);

/// Bytes after which a text is full: with the last of its list, some 6,000 at most, it is the longest.
const FULL_TEXT: usize = 128 << 10;

/// Bytes of the history that are looked at for one message: a few milliseconds of work.
const MOST_LOOKED: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_clients_wait_for_less_than_a_frame_and_many_for_one() {
        let millis = [0, 1, 2, 4, 5, 200, usize::MAX].map(|clients| pause(clients).as_secs_f64() * 1e3);
        assert_eq!(millis, [4.0, 4.0, 8.0, 16.0, 16.6, 16.6, 16.6]);
    }
}
