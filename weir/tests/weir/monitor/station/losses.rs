//! What the kernel does not take is a gap, exactly.

use super::*;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

/// Does something while a station stands still.
fn stopped(station: &Started, change: impl FnOnce()) {
    station.signal(Signal::SIGSTOP);
    let id = station.pid();
    assert_eq!(waitpid(id, Some(WaitPidFlag::WUNTRACED)).unwrap(), WaitStatus::Stopped(id, Signal::SIGSTOP));
    change();
    station.signal(Signal::SIGCONT);
}

#[test]
fn what_the_kernel_does_not_take_is_told_afterwards() {
    let Some([one, other]) = cable(1500) else { return };
    let mut member = Member::join(&other, GROUP, 5110);
    let mut station = start(&one, &["--source", "counter,name=n,rate=1k/s", "--display", "0"]);
    let sent = |ledger: &Value| ledger["streams"][0]["samples"]["sent"].as_u64().unwrap_or(0);
    let before = station.await_ledger(|ledger| sent(ledger) > 200);
    let mut netlink = one.netlink();
    let eth0 = netlink.link("eth0").unwrap().index;
    // While an interface goes or comes, the kernel takes what it then drops, and says nothing: nothing is sent meanwhile.
    stopped(&station, || netlink.set_down(eth0).unwrap());
    station.await_ledger(|ledger| ledger["streams"][0]["not_taken"].as_u64() > Some(20));
    stopped(&station, || {
        netlink.set_up(eth0).unwrap();
        one.wait_until_running();
    });
    let goal = sent(&before) + 500;
    station.await_ledger(|ledger| sent(ledger) > goal);
    let warned = station.line("datagram");
    assert!(warned.contains("239.192.77.1:5110 through eth0") && warned.contains("(no route leads there"), "{warned}");
    let ledger = stop(station);
    let channels = member.channels();
    let gaps = channels[&0].gaps();
    let samples = &ledger["streams"][0]["samples"];
    assert_eq!(gaps.keys().copied().collect::<Vec<_>>(), [3], "{gaps:?}");
    assert_eq!(samples["gaps"]["station"].as_u64(), Some(gaps[&3]), "{ledger:#}");
    assert!(gaps[&3] > 50, "{gaps:?}");
    assert_eq!(samples["due"].as_u64(), Some(channels[&0].next));
    assert!(channels[&0].each().all(|(index, value)| value == index as f64));
}
