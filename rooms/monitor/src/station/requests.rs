//! What others ask of the station, by datagrams to where its own come from.

use std::net::SocketAddr;

use ipnet::IpNet;
use weir_dgram::Inbox;
use weir_program::clock::Nanos;
use weir_wire::signal::{Body, Datagram, Request, Wish};

use super::ledger::RequestCount;
use super::stream::Stream;
use crate::seal::Hearing;

/// Hears requests, and grants what it may.
pub(super) struct Requests {
    inbox: Inbox,
    /// Of each stream, as its keys demand.
    hearing: Vec<Hearing>,
    scratch: Vec<u8>,
    /// Whose wishes are granted.
    control: Vec<IpNet>,
    /// Metadata that was asked for went out last.
    answered: Nanos,
    wishes: Vec<Granted>,
    pub(super) count: RequestCount,
}

/// A wish that is in force.
#[derive(Clone, Copy, Debug)]
struct Granted {
    stream: usize,
    lane: usize,
    until: Nanos,
}

impl Requests {
    pub(super) fn new(control: &[IpNet], hearing: Vec<Hearing>) -> Self {
        Self {
            inbox: Inbox::new(16, 2048),
            hearing,
            scratch: Vec::new(),
            control: control.to_vec(),
            answered: 0,
            wishes: Vec::new(),
            count: RequestCount::default(),
        }
    }

    /// Hears what has come to a stream.
    pub(super) fn hear(&mut self, at: usize, stream: &mut Stream, now: Nanos) {
        let mut heard = Vec::new();
        for socket in stream.outlets.sockets() {
            // Reports on earlier datagrams would keep the socket readable.
            while matches!(socket.next_error(), Ok(Some(_))) {}
            if self.inbox.receive(socket).is_ok() {
                for message in self.inbox.messages() {
                    let session = stream.header.session;
                    let Some(opened) = self.hearing[at].open(message.bytes, session, &mut self.scratch) else {
                        self.count.unsealed += 1;
                        continue;
                    };
                    match Datagram::parse(opened) {
                        Ok(Datagram { header, body: Body::Request(body) }) => match Request::parse(body) {
                            Ok(request) => heard.push((message.source, header.session, request)),
                            Err(_) => self.count.malformed += 1,
                        },
                        _ => self.count.malformed += 1,
                    }
                }
            }
        }
        for (source, session, request) in heard {
            if request.metadata {
                self.answer(stream, now);
            }
            for wish in &request.wishes {
                if self.may(source, session, stream) && self.grant(at, stream, wish, now) {
                    self.count.granted += 1;
                } else {
                    self.count.refused += 1;
                }
            }
        }
    }

    /// Anybody may ask for metadata; all together get it ten times a second at most.
    fn answer(&mut self, stream: &mut Stream, now: Nanos) {
        self.count.metadata += 1;
        if self.answered == 0 || now >= self.answered + ANSWERS_APART {
            self.answered = now.max(1);
            stream.tell_metadata();
        }
    }

    fn may(&self, source: SocketAddr, session: u64, stream: &Stream) -> bool {
        session == stream.header.session && self.control.iter().any(|network| network.contains(&source.ip()))
    }

    /// Carries a wish out, for a while.
    fn grant(&mut self, at: usize, stream: &mut Stream, wish: &Wish, now: Nanos) -> bool {
        let number = usize::from(wish.channel);
        let Some(lane) = stream.lanes.get_mut(number).and_then(Option::as_mut) else { return false };
        // No bucket takes longer than a minute to fill.
        if f64::from(wish.bucket) > (lane.rate.per_s() * 60.0).max(1.0) {
            return false;
        }
        if lane.bucket() != wish.bucket {
            lane.set_bucket(wish.bucket);
            stream.tell_metadata();
        }
        self.wishes.retain(|granted| (granted.stream, granted.lane) != (at, number));
        self.wishes.push(Granted { stream: at, lane: number, until: now + WISHES_LAST });
        true
    }

    /// Channels whose wish nobody has repeated go back to what is configured.
    pub(super) fn expire(&mut self, streams: &mut [Stream], now: Nanos) {
        self.wishes.retain(|granted| {
            if now < granted.until {
                return true;
            }
            let stream = &mut streams[granted.stream];
            if let Some(lane) = &mut stream.lanes[granted.lane] {
                lane.set_bucket(lane.configured);
                stream.tell_metadata();
            }
            false
        });
        self.count.in_force = self.wishes.len();
    }
}

const ANSWERS_APART: Nanos = 100_000_000;

/// Then it is over, unless it is repeated: whoever wished may be gone.
const WISHES_LAST: Nanos = 60_000_000_000;
