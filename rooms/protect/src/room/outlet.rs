//! From a shard to the thread that decides: a bounded queue, which a shard never waits for.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use ipnet::IpNet;
use rtrb::{Consumer, Producer, RingBuffer};

use super::Waker;
use super::thinning::Thinning;
use crate::evidence::{Counts, Heard, Speakers};
use crate::model::{Packet, Point, Sighting, Stream};

/// What a shard tells.
#[derive(Clone, Debug)]
pub enum News {
    /// A packet to a protected address was sampled.
    Seen(Seen),
    /// Counters of an interface came.
    Counts(Counts),
    /// Of an agent, or of what is wrong with it.
    Heard(Heard),
}

/// A sighting, copied.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    time: u64,
    kept: u64,
    ago: [u64; 2],
    point: Point,
    stream: Stream,
    ingress: Option<bool>,
    frames: f64,
    packet: Packet,
    length: u8,
    header: [u8; HEADER],
}

/// The shard's end of a queue.
#[derive(Debug)]
pub struct Outlet {
    queue: Producer<News>,
    waker: Arc<Waker>,
    /// In the order of addresses, none within another.
    protected: Arc<[IpNet]>,
    speakers: Arc<Speakers>,
    totals: Arc<Totals>,
    thinning: Thinning,
    is_new: bool,
}

/// The other end.
#[derive(Debug)]
pub struct Inlet {
    queue: Consumer<News>,
    totals: Arc<Totals>,
}

/// What went through a queue.
#[derive(Debug, Default)]
pub struct Totals {
    passed: AtomicU64,
    dropped: AtomicU64,
    late: AtomicU64,
}

/// A queue with so many places, for packets to these networks.
pub fn queue(places: usize, protected: &[IpNet], waker: Arc<Waker>) -> (Outlet, Inlet) {
    let (producer, consumer) = RingBuffer::new(places);
    let totals = Arc::<Totals>::default();
    let (protected, thinning) = (sorted(protected), Thinning::new(RandomState::default().hash_one(places)));
    let (speakers, is_new) = (Arc::default(), false);
    let outlet = Outlet { queue: producer, waker, protected, speakers, totals: totals.clone(), thinning, is_new };
    (outlet, Inlet { queue: consumer, totals })
}

/// In an order in which a search by halves finds the only one that can hold an address.
fn sorted(networks: &[IpNet]) -> Arc<[IpNet]> {
    let mut networks = IpNet::aggregate(&networks.to_vec());
    networks.sort_by_key(IpNet::network);
    networks.into()
}

impl Outlet {
    /// Whether packets to an address are to be told of.
    #[inline]
    pub fn protects(&self, address: IpAddr) -> bool {
        let behind = self.protected.partition_point(|network| network.network() <= address);
        behind > 0 && self.protected[behind - 1].contains(&address)
    }

    /// Tells of a packet, or lets others count for it where more come than are looked at.
    #[inline]
    pub fn sample(&mut self, sighting: &Sighting<'_>) {
        let Self { thinning, queue, .. } = self;
        match thinning.choose(|| (queue.slots(), queue.buffer().capacity())) {
            None => count(&self.totals.dropped),
            Some(of) => {
                let frames = sighting.frames * f64::from(of);
                self.put(News::Seen(Seen::of(&Sighting { frames, ..*sighting })));
            }
        }
    }

    /// Does not tell of a packet, since its datagram was overtaken: those in order count for it.
    pub fn late(&mut self) {
        count(&self.totals.late);
    }

    /// Tells of counters.
    pub fn counts(&mut self, counts: Counts) {
        self.put(News::Counts(counts));
    }

    /// Tells of an agent.
    pub fn heard(&mut self, heard: Heard) {
        self.put(News::Heard(heard));
    }

    /// Wakes whoever waits for what has been told. To be called after each datagram.
    #[inline]
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.is_new) {
            self.waker.wake();
        }
    }

    /// Whether there is no room.
    pub fn is_full(&self) -> bool {
        self.queue.is_full()
    }

    /// Tells of packets to other networks from now on.
    pub fn protect(&mut self, networks: &[IpNet]) {
        self.protected = sorted(networks);
    }

    /// Takes agents to speak from there, from now on; before the first time each speaks from anywhere.
    pub fn listen(&mut self, speakers: Arc<Speakers>) {
        self.speakers = speakers;
    }

    /// Whether an agent that is listed does not speak from there.
    #[inline]
    pub fn is_foreign(&self, agent: IpAddr, from: IpAddr) -> bool {
        self.speakers.is_foreign(agent, from)
    }

    #[inline]
    fn put(&mut self, news: News) {
        count(match self.queue.push(news) {
            Ok(()) => {
                self.is_new = true;
                &self.totals.passed
            }
            Err(_) => &self.totals.dropped,
        });
    }
}

/// The shard alone writes it.
#[inline]
fn count(total: &AtomicU64) {
    total.store(total.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl News {
    /// When it came, ns, as in [`Sighting::time`].
    pub fn time(&self) -> u64 {
        match self {
            Self::Seen(seen) => seen.time,
            Self::Counts(counts) => counts.to,
            Self::Heard(heard) => heard.time,
        }
    }
}

impl Inlet {
    /// Hands over what has come until a time, at most so many; how many those were.
    pub fn take(&mut self, most: usize, until: u64, mut each: impl FnMut(&News)) -> usize {
        let Ok(chunk) = self.queue.read_chunk(self.queue.slots().min(most)) else { return 0 };
        let (first, second) = chunk.as_slices();
        let mut count = 0;
        let due = first.iter().chain(second).take_while(|news| news.time() <= until);
        due.for_each(|news| {
            count += 1;
            each(news);
        });
        chunk.commit(count);
        count
    }

    /// When that came which waits longest; `None`: nothing waits.
    pub fn first(&self) -> Option<u64> {
        self.queue.peek().ok().map(News::time)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Packets that it was not told of since their datagrams were overtaken.
    pub fn late(&self) -> u64 {
        self.totals.late.load(Ordering::Relaxed)
    }

    /// What it passed on since the start, and what it had no room for.
    pub fn totals(&self) -> (u64, u64) {
        (self.totals.passed.load(Ordering::Relaxed), self.totals.dropped.load(Ordering::Relaxed))
    }
}

impl Seen {
    fn of(sighting: &Sighting<'_>) -> Self {
        let Sighting { time, kept, ago, point, stream, ingress, frames, packet, header: bytes } = *sighting;
        let length = bytes.len().min(HEADER);
        let mut header = [0; HEADER];
        header[..length].copy_from_slice(&bytes[..length]);
        Self { time, kept, ago, point, stream, ingress, frames, packet, length: length as u8, header }
    }

    /// As it was told.
    pub fn sighting(&self) -> Sighting<'_> {
        let Self { time, kept, ago, point, stream, ingress, frames, packet, length, header } = self;
        let header = &header[..usize::from(*length)];
        Sighting {
            time: *time,
            kept: *kept,
            ago: *ago,
            point: *point,
            stream: *stream,
            ingress: *ingress,
            frames: *frames,
            packet: *packet,
            header,
        }
    }
}

/// First bytes of a packet that are passed on: IPv6 and TCP behind two tags.
const HEADER: usize = 96;
