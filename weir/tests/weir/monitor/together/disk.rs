//! A recorder whose disk is full, and a viewer beside it.

use weir_testbed::standstills::Standstills;
use weir_testbed::turn;

use super::socket::{Client, Told, age};
use super::*;
use crate::network::network;
use crate::service::WEIR;

#[test]
fn a_viewer_is_in_time_while_the_disk_is_full() {
    let _turn = turn();
    let Some(unshare) = program("unshare") else { return };
    let Some([one, recorder, viewer]) = network(["station", "recorder", "viewer"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    // A disk of 24 MB of which 23 are another's.
    let script = format!(
        "mount -t tmpfs -o size=24m none {dir} && head -c 23M /dev/zero >{dir}/others &&\n\
         exec {WEIR} monitor record --json --listen {GROUP} --interface eth0 --leave 0 --dir {dir}",
        dir = dir.path().display(),
    );
    let mut command = Command::new(unshare);
    command.args(["--mount", "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recording = Running::spawn(&recorder.ns, command);
    let mut server = Running::server(&viewer.ns, GROUP);
    let sources = ["--display", "0", "--source", "sine,name=s,rate=20k/s,copies=8"];
    let station = Running::station(&one.ns, "coil", &sources);
    server.await_ledger("channels", |ledger| ledger["channels"] == 8);
    let mut client = Client::connect(&viewer.ns);
    client.ask(&[0, 1, 2, 3, 4, 5, 6, 7], 1000.0, 1000);
    client.await_told(|told| matches!(told, Told::Text(text) if text.get("whole").is_some()));
    let ended = std::sync::atomic::AtomicBool::new(false);
    let standstills = Standstills::watch();
    let (unkept, ages) = thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut ages = Vec::new();
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                match client.next().unwrap() {
                    Told::Samples { end, .. } => ages.push((Instant::now(), age(end))),
                    Told::Gap { first, samples, .. } => panic!("{samples} are missing from {first} on"),
                    Told::Close(why) => panic!("{why}"),
                    Told::Text(_) => {}
                }
            }
            ages
        });
        let unkept = recording.await_ledger("full", |ledger| ledger["archive"]["unkept"].as_u64() > Some(500_000));
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        (unkept, watching.join().unwrap())
    });
    assert!(unkept["archive"]["came"].as_u64() > Some(500_000), "{unkept:#}");
    let mut ages: Vec<Duration> = ages.into_iter().map(|(at, age)| standstills.running(at - age, at)).collect();
    ages.sort_unstable();
    let (median, late) = (ages[ages.len() / 2], ages[ages.len() * 99 / 100]);
    eprintln!("a viewer beside a full disk: {median:?}, 99 of 100 within {late:?}");
    assert!(median <= Duration::from_millis(50) && late <= Duration::from_millis(250), "{median:?}, {late:?}");
    let sent = sent(&station.stop());
    server.await_ledger("its end", |ledger| has_ended(ledger, "coil"));
    let ledger = server.stop();
    assert_eq!(received(&ledger), (sent, 0), "{ledger:#}");
    recording.await_ledger("all", |ledger| ledger["archive"]["came"] == sent);
    let ledger = recording.stop();
    assert_eq!(received(&ledger), (sent, 0), "{ledger:#}");
    let number = |key: &str| ledger["archive"][key].as_u64().unwrap();
    assert_eq!(number("kept") + number("unkept"), sent, "{ledger:#}");
}
