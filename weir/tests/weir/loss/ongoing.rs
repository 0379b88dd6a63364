//! The account of traffic that goes on, and beside a session's own report.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::account::Account;
use super::{Reader, Scene, WEIR};
use weir_testbed::await_that;

#[test]
fn traffic_that_goes_on_is_accounted_for() {
    let Some(scene) = Scene::set() else { return };
    let reader = Reader::start(scene.listen_roomy());
    let socket = scene.source();
    let ends = AtomicBool::new(false);
    let account = thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::SeqCst) {
                socket.send_to(&scene.payload(false), scene.to()).unwrap();
                thread::sleep(Duration::from_micros(300));
            }
        });
        reader.await_some(50);
        let following = scene.follow();
        let count = reader.count();
        reader.await_some(count + 500);
        let account = following.end().traced();
        ends.store(true, Ordering::SeqCst);
        account
    });
    let ledger = account.of(scene.port);
    let number = |name: &str| ledger.0[name].as_u64().unwrap();
    assert_eq!((ledger.places(), ledger.unexplained()), (vec![], Some(0)), "{:#}", ledger.0);
    assert!(number("received") >= 500, "{:#}", ledger.0);
    assert_eq!(number("sent"), number("received") + number("pending"), "{:#}", ledger.0);
}

#[test]
fn a_session_prints_its_account() {
    let Some(scene) = Scene::set() else { return };
    let at = scene.to().to_string();
    let program = |host: &crate::network::Host, flags: &[&str]| {
        let flags = [flags, &["--json", "--account"]].concat();
        host.program(&*WEIR).args(flags).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut receiver = program(&scene.receiver, &["recv", "--listen", &at]);
    scene.receiver.await_port(scene.port, &mut receiver);
    // So few that the kernel's default buffer holds all, should the receiver stand still.
    let flags = ["send", "--to", &at, "--payload", "64B", "--rate", "1000/s", "--duration", "200ms"];
    let report = |running: weir_kernel::namespaces::process::Running| -> Value {
        let (status, output, _) = running.output().unwrap();
        assert_eq!(status, 0);
        serde_json::from_slice(&output).unwrap()
    };
    let (sent, received) = (report(program(&scene.sender, &flags)), report(receiver));
    let count = |report: &Value, name: &str| report[name].as_u64().unwrap();
    let account = Account(sent["account"].clone());
    let ledger = account.without_receiver();
    // The receiver may be gone before the last announcement, which then fails.
    let failed: u64 = ledger.places().iter().map(|(_, count)| count).sum();
    let tried = count(&sent, "sent") + count(&sent, "announcements") + failed;
    assert_eq!(ledger.0["sent"], tried, "{:#}", ledger.0);
    // It left for the other host, which is not followed from here.
    assert_eq!((&ledger.0["received"], &ledger.0["unexplained"]), (&Value::Null, &Value::Null), "{:#}", ledger.0);
    let session = &received["sessions"][0];
    assert_eq!(count(session, "received"), count(&sent, "sent"), "{session:#}");
    let account = Account(received["account"].clone());
    let ledger = account.of(scene.port);
    let read = count(session, "received") + count(session, "announcements");
    assert_eq!((ledger.0["received"].as_u64(), ledger.unexplained()), (Some(read), Some(0)), "{:#}", ledger.0);
}

/// What was in the queue is read first, and is not of this account.
#[test]
fn what_waited_before_the_account_is_a_term_of_its_own() {
    let Some(scene) = Scene::set() else { return };
    let (source, socket) = (scene.source(), scene.listen());
    let send = |count, size| {
        for _ in 0..count {
            source.send_to(&vec![7; size], scene.to()).unwrap();
        }
    };
    let enqueued = |bytes: u64| {
        await_that("the queue", || {
            let listed = weir_kernel::counters::sockets(&scene.receiver.ns).unwrap();
            listed.iter().any(|one| one.local == scene.to() && u64::from(one.memory.queued) >= bytes)
        });
    };
    send(7, 50);
    enqueued(7 * 832);
    let following = scene.follow();
    // Their memory is another: it does not tell how many of which there were.
    send(20, 900);
    enqueued(7 * 832 + 20 * 1500);
    for _ in 0..22 {
        socket.recv(&mut [0; 100]).unwrap();
    }
    let account = following.end().traced();
    let ledger = account.of(scene.port);
    let of = |name: &str| ledger.0[name].as_u64();
    assert_eq!((of("sent"), of("received"), of("pending")), (Some(20), Some(15), Some(5)), "{:#}", ledger.0);
    assert_eq!(ledger.0["unexplained"], 0);
}
