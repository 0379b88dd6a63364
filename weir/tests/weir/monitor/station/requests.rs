//! Requests: metadata for everybody, wishes of those who may.

use std::net::SocketAddr;

use super::*;

/// A request of a session: with metadata, and wishes of channels.
fn request(session: u64, metadata: bool, wishes: &[(u16, u32)]) -> Vec<u8> {
    let mut bytes = b"WS\x14\0\0\xff\0\0".to_vec();
    bytes.extend(session.to_le_bytes());
    bytes.extend([0; 8]);
    if metadata {
        bytes.extend([64, 0]);
    }
    for (channel, bucket) in wishes {
        bytes.extend([16, 2]);
        bytes.extend(channel.to_le_bytes());
        bytes.extend([65, 4]);
        bytes.extend(bucket.to_le_bytes());
    }
    bytes
}

/// The session, and where requests go.
fn station_of(member: &mut Member) -> (u64, SocketAddr) {
    let mut bytes = [0; 2000];
    let (length, source) = member.socket.recv_from(&mut bytes).unwrap();
    member.datagrams.push(bytes[..length].to_vec());
    (Datagram::read(&bytes[..length]).session, source)
}

#[test]
fn a_channel_is_thinned_anew_by_whoever_may() {
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("station.toml");
    let text = "name = \"test\"\ninterface = [\"eth0\"]\ncontrol = [\"10.0.0.2/32\"]\n\
                [[source]]\nkind = \"counter\"\nname = \"n\"\nrate = \"10k/s\"\n";
    std::fs::write(&file, text).unwrap();
    let mut station = one.run(|| Started::ready(weir(&["monitor", "station", "--json", "-c", file.to_str().unwrap()])));
    let (session, to) = station_of(&mut member);
    let asks = other.run(|| UdpSocket::bind("10.0.0.2:0").unwrap());
    let bucket_is = |bucket: u32| move |datagram: &Datagram| datagram.blocks.iter().any(|block| block.bucket == bucket);
    member.await_datagram(bucket_is(50));
    asks.send_to(&request(session, false, &[(0, 7)]), to).unwrap();
    member.await_datagram(bucket_is(7));
    asks.send_to(&request(session, false, &[(0, 1)]), to).unwrap();
    member.await_datagram(bucket_is(1));
    asks.send_to(&request(session, false, &[(0, 0)]), to).unwrap();
    member.await_datagram(|datagram| datagram.blocks.iter().any(|block| block.cause == Some(2)));
    // Of another session, of no such channel, beyond a minute, from elsewhere; and what is no request.
    asks.send_to(&request(session + 1, false, &[(0, 9)]), to).unwrap();
    asks.send_to(&request(session, false, &[(7, 9), (0, 700_000)]), to).unwrap();
    let elsewhere = one.run(|| UdpSocket::bind("10.0.0.1:0").unwrap());
    elsewhere.send_to(&request(session, true, &[(0, 9)]), to).unwrap();
    for bytes in [&b"WS"[..], b"", b"\xff\xff\xff\xff", &request(session, false, &[(0, 9)])[..30]] {
        elsewhere.send_to(bytes, to).unwrap();
    }
    let ledger =
        station.await_ledger(|ledger| ledger["requests"]["malformed"] == 4 && ledger["requests"]["refused"] == 4);
    assert_eq!((&ledger["requests"]["granted"], &ledger["requests"]["metadata"]), (&3.into(), &1.into()), "{ledger:#}");
    assert_eq!(ledger["requests"]["in_force"], 1);
    let ledger = stop(station);
    let channel = &member.channels()[&0];
    assert_eq!(Some(channel.next), ledger["streams"][0]["samples"]["due"].as_u64());
    assert_eq!(channel.gaps().get(&2).copied(), ledger["streams"][0]["samples"]["gaps"]["unselected"].as_u64());
    assert!(channel.each().all(|(index, value)| value == index as f64));
}

#[test]
fn metadata_comes_when_it_is_asked_for_and_no_more_than_ten_times_a_second() {
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    let mut station = start(&one, &["--source", "counter,name=n,rate=10/s"]);
    let (session, to) = station_of(&mut member);
    let asks = other.run(|| UdpSocket::bind("10.0.0.2:0").unwrap());
    let told =
        |ledger: &Value| (ledger["streams"][0]["metadata"].as_f64().unwrap(), ledger["elapsed_s"].as_f64().unwrap());
    let begin = Instant::now();
    // A station that stands still answers less often, but more often than once a second, as unasked.
    let has_answered = |(metadata, elapsed): (f64, f64)| metadata > 8.0 && metadata > 3.0 * elapsed + 3.0;
    loop {
        for _ in 0..2000 {
            asks.send_to(&request(session, true, &[]), to).unwrap();
            thread::sleep(Duration::from_micros(500));
        }
        let ledger = station.await_ledger(|ledger| ledger["requests"]["metadata"].as_u64() > Some(100));
        if has_answered(told(&ledger)) {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{ledger:#}");
    }
    let (metadata, elapsed) = told(&stop(station));
    assert!(metadata > 8.0 && metadata < 11.0 * elapsed + 5.0, "{metadata} in {elapsed} s");
}
