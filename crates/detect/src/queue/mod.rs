//! From a shard to the thread that decides: a bounded queue, which a shard never waits for.

mod listed;
mod thinning;
mod waker;

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use ipnet::IpNet;
use rtrb::{Consumer, Producer, RingBuffer};

pub use listed::Listed;
use thinning::Thinning;
pub use waker::Waker;

use crate::model::{Alive, Contested, Sighting};

/// What a shard tells.
#[derive(Clone, Debug)]
pub enum News {
    /// A packet to a protected address was sampled.
    Seen(Seen),
    /// A listed agent is heard.
    Alive(Alive),
    /// An agent contradicts itself.
    Contested(Contested),
}

/// A sighting, copied.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Without its first bytes.
    sighting: Sighting<'static>,
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
    listed: Arc<Listed>,
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
    unlisted: AtomicU64,
    rivals: AtomicU64,
}

/// A queue with so many places, for packets to these networks.
pub fn queue(places: usize, protected: &[IpNet], waker: Arc<Waker>) -> (Outlet, Inlet) {
    let (producer, consumer) = RingBuffer::new(places);
    let totals = Arc::<Totals>::default();
    let (protected, thinning) = (sorted(protected), Thinning::new(RandomState::default().hash_one(places)));
    let (listed, is_new) = (Arc::default(), false);
    let outlet = Outlet { queue: producer, waker, protected, listed, totals: totals.clone(), thinning, is_new };
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

    /// Does not tell of a packet, since its agent is not listed, or not from where it came.
    pub fn unlisted(&mut self) {
        count(&self.totals.unlisted);
    }

    /// Does not tell of a packet, since another stream of its identity is settled.
    pub fn rival(&mut self) {
        count(&self.totals.rivals);
    }

    /// A listed agent is heard. To be told once a second.
    pub fn alive(&mut self, alive: Alive) {
        self.put(News::Alive(alive));
    }

    /// An agent contradicts itself. To be told when it begins, and once in `settle` as long as it goes on.
    pub fn contested(&mut self, contested: Contested) {
        self.put(News::Contested(contested));
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

    /// Takes these agents as listed from now on; before the first time all are.
    pub fn listen(&mut self, listed: Arc<Listed>) {
        self.listed = listed;
    }

    /// How long a stream must have been heard without a contradiction before it may act, ns.
    pub fn settle(&self) -> u64 {
        self.listed.settle
    }

    /// Whether an agent is listed, and its datagrams may come from there.
    #[inline]
    pub fn is_listed(&self, agent: IpAddr, from: IpAddr) -> bool {
        self.listed.is_listed(agent, from)
    }

    /// Whether an agent is listed there by name: not since all are.
    pub fn names(&self, agent: IpAddr, from: IpAddr) -> bool {
        !self.listed.is_empty() && self.is_listed(agent, from)
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
            Self::Seen(seen) => seen.sighting.time,
            Self::Alive(alive) => alive.time,
            Self::Contested(contested) => contested.time,
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

    /// What it passed on since the start, what it had no room for, and packets of agents that are not listed, and of rivals.
    pub fn totals(&self) -> [u64; 4] {
        let Totals { passed, dropped, unlisted, rivals } = &*self.totals;
        [passed, dropped, unlisted, rivals].map(|total| total.load(Ordering::Relaxed))
    }
}

impl Seen {
    fn of(sighting: &Sighting<'_>) -> Self {
        let Sighting { time, stream, exposure, word, point, ingress, frames, packet, header: bytes } = *sighting;
        let length = bytes.len().min(HEADER);
        let mut header = [0; HEADER];
        header[..length].copy_from_slice(&bytes[..length]);
        let sighting = Sighting { time, stream, exposure, word, point, ingress, frames, packet, header: &[] };
        Self { sighting, length: length as u8, header }
    }

    /// As it was told.
    pub fn sighting(&self) -> Sighting<'_> {
        Sighting { header: &self.header[..usize::from(self.length)], ..self.sighting }
    }
}

/// First bytes of a packet that are passed on: IPv6 and TCP behind two tags.
const HEADER: usize = 96;
