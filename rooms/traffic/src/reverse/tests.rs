//! Both ends over real sockets on the loopback interface.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use weir_program::stop::Stop;
use weir_units::BitRate;
use weir_wire::probe::Probe;

use super::lines::{First, Line, Request, VERSION, Want};
use super::{Client, Parted};
use crate::{
    Direction, Exchange, Pacing, ReceiveReport, Receiver, ReceiverSettings, ReverseSettings, SenderSettings, Transport,
    Until,
};

/// What became of a receiver that allows everything, while something was done to it.
fn serving<T>(transport: Transport, work: impl FnOnce(SocketAddr, &Stop) -> T) -> (T, ReceiveReport) {
    let reverse = Some(ReverseSettings {
        rate: BitRate { bits_per_second: 1_000_000_000 },
        duration: Duration::from_secs(60),
        flows: 4,
    });
    let until = Until { announced: true, ..Until::default() };
    let settings =
        ReceiverSettings { transport, reverse, until, ..ReceiverSettings::new("127.0.0.1:0".parse().unwrap()) };
    let receiver = Receiver::bind(&settings).unwrap();
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    thread::scope(|scope| {
        let to = receiver.local_addr();
        let served = scope.spawn(|| receiver.run(&exchange, &stop));
        let done = work(to, &stop);
        (done, served.join().unwrap())
    })
}

#[test]
fn both_ends_have_the_same_accounts() {
    for (transport, both) in [Transport::Udp, Transport::Tcp].into_iter().flat_map(|of| [(of, false), (of, true)]) {
        let (report, served) = serving(transport, |to, _| {
            let settings = SenderSettings {
                transport,
                interval: Duration::from_millis(1),
                pacing: Pacing::Schedule,
                count: NonZeroU64::new(50),
                announce: true,
                ..SenderSettings::new(to)
            };
            Client::open(&settings, both).unwrap().run(&Stop::new().unwrap()).unwrap()
        });
        assert_eq!((&report.parted, report.failure), (&Parted::Told, None), "{transport} {both}");
        let [flow] = &served.reverse[..] else { panic!("{served:?}") };
        assert_eq!(report.received.main_session().unwrap().delivered, 50);
        for directions in [&report.directions, &flow.directions] {
            let reported = directions.iter().map(|account| (account.direction, account.sent, account.received));
            let expected = [Direction::Forward, Direction::Reverse].map(|way| (Some(way), Some(50), Some(50)));
            assert_eq!(reported.collect::<Vec<_>>(), expected[usize::from(!both)..]);
        }
        assert_eq!((served.refused, served.foreign, served.errors), (0, 0, vec![]));
    }
}

/// Nothing is sent before the token comes, nor to any address but that of the connection.
#[test]
fn a_token_is_good_once_and_from_its_own_address_alone() {
    let ((), served) = serving(Transport::Udp, |to, stop| {
        let mut call = TcpStream::connect(to).unwrap();
        let request = Request {
            version: VERSION,
            want: Want::Reverse,
            transport: Transport::Udp,
            session: 7,
            payload: 1000,
            interval_ns: 60_000_000_000,
            duration_ns: 60_000_000_000,
            count: None,
            pacing: Pacing::Sleep,
        };
        writeln!(call, "{}", serde_json::to_string(&request).unwrap()).unwrap();
        let mut line = String::new();
        BufReader::new(call.try_clone().unwrap()).read_line(&mut line).unwrap();
        let Line::Granted { token } = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        let token = serde_json::to_vec(&First::Token { token }).unwrap();
        let (thief, own) = (UdpSocket::bind("127.0.0.2:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        thief.send_to(&token, to).unwrap();
        own.send_to(b"{\"token\":\"0123\"}", to).unwrap();
        // Twice, as where the first message has not come yet.
        own.send_to(&token, to).unwrap();
        own.send_to(&token, to).unwrap();
        let mut bytes = [0; 2000];
        let (length, _) = own.recv_from(&mut bytes).unwrap();
        assert_eq!(Probe::parse_datagram(&bytes[..length]).unwrap().session, 7);
        own.set_nonblocking(true).unwrap();
        thief.set_nonblocking(true).unwrap();
        assert!(own.recv_from(&mut bytes).is_err() && thief.recv_from(&mut bytes).is_err());
        drop(call);
        stop.set();
    });
    assert_eq!((served.foreign, served.refused, served.reverse.len()), (2, 0, 1));
}
