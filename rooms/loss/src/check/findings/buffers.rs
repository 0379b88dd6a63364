//! Memory for datagrams that wait for their reader.

use weir_units::format;

use super::{Case, Change, Finding, number};
use crate::advice::{Advice, HANGS};
use crate::check::facts::Receiver;
use crate::check::setting::Setting;
use crate::places::Place;

pub(super) fn audit(case: &Case<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        case.facts.receivers.iter().filter_map(|receiver| receiver_buffer(case, receiver)).collect();
    let all = case.facts.receivers.iter().chain(&case.facts.losing);
    findings.extend(all.filter(|receiver| hangs(case, receiver)).map(hanging));
    findings.extend(most_buffer(case));
    if case.facts.receivers.is_empty() {
        findings.extend(default_buffer(case));
    }
    findings.extend(all_sockets(case));
    findings
}

/// The buffer of a socket that is followed.
fn receiver_buffer(case: &Case<'_>, receiver: &Receiver) -> Option<Finding> {
    if hangs(case, receiver) {
        return None;
    }
    let seen = case.facts.seen.as_ref().filter(|seen| seen.cookie == receiver.cookie);
    let advice = seen.and_then(|seen| seen.advice.as_ref());
    if let Some(advice) = advice.filter(|advice| advice.receive_buffer.is_none()) {
        return Some(too_slow(receiver, advice));
    }
    // What was lost tells more than the longest stall.
    let needed = advice.and_then(|advice| advice.receive_buffer).map_or(0, |asked| asked * 2).max(case.need.buffer);
    if receiver.buffer >= needed {
        return None;
    }
    let setting = Setting::SocketBuffer { cookie: receiver.cookie, address: receiver.address.to_string() };
    // What is asked for is doubled: an even number comes out as it is.
    let value = (needed.div_ceil(2) * 2).to_string();
    let change = Change { setting, value };
    let what = format!("the receive buffer of {} is too small", receiver.who());
    let need = match advice {
        Some(advice) => format!(
            "{} B: what it held and what was dropped before it was empty again, the worst of {} times, and room for worse",
            number(needed),
            advice.episodes
        ),
        None => sum(case),
    };
    let finding = Finding::mended("receive_buffer", Place::ReceiveBuffer, what, vec![change])
        .with(
            "sock_diag, SK_MEMINFO",
            format!("rcvbuf {} B, {} B taken", number(receiver.buffer), number(receiver.level)),
        )
        .counted("sock_diag, SK_MEMINFO", "drops", receiver.drops)
        .need(need)
        .cost(format!(
            "up to {} of memory while its reader stalls; the program need not restart, and has its own buffer again \
             when it does",
            bytes(needed)
        ));
    Some(if receiver.pid.is_none() { Finding { changes: Vec::new(), ..finding } } else { finding })
}

/// Work comes faster than it is done.
fn too_slow(receiver: &Receiver, advice: &Advice) -> Finding {
    let what = format!("the reader of {} is too slow: no buffer helps", receiver.who());
    let command = "a faster handler, several datagrams a call (recvmmsg), more readers (SO_REUSEPORT)".to_owned();
    let rate = |per_s: f64| number(per_s.round() as u64);
    Finding::advised("reader", Place::ReceiveBuffer, what, command)
        .with("eBPF", format!("{}/s arrive, it can read {}/s", rate(advice.arrive_per_s), rate(advice.read_per_s)))
        .counted("sock_diag, SK_MEMINFO", "drops", receiver.drops)
        .need(format!("a reader that takes {}/s", rate(advice.arrive_per_s)))
        .cost("a change of the program")
}

/// Whether it reads nothing for longer than it may stall, as it was stated or seen.
fn hangs(case: &Case<'_>, receiver: &Receiver) -> bool {
    let is_seen = case.facts.seen.as_ref().is_some_and(|seen| seen.cookie == receiver.cookie);
    receiver.hangs && !is_seen && case.load.stall.duration().as_secs_f64() < case.facts.watched_s
}

/// Nobody does the work.
fn hanging(receiver: &Receiver) -> Finding {
    let what = format!("the reader of {} reads nothing: no buffer helps", receiver.who());
    Finding::advised("reader", Place::ReceiveBuffer, what, HANGS.to_owned())
        .with(
            "sock_diag, SK_MEMINFO",
            format!("rcvbuf {} B, {} B taken", number(receiver.buffer), number(receiver.level)),
        )
        .with("eBPF", "nothing was read while watched")
        .counted("sock_diag, SK_MEMINFO", "drops", receiver.drops)
        .need("a reader that reads")
        .cost("as what is changed")
}

/// What a program may ask for.
fn most_buffer(case: &Case<'_>) -> Option<Finding> {
    let most = case.facts.settings.rmem_max.filter(|most| *most < case.need.asked())?;
    let setting = Setting::sysctl("net/core/rmem_max");
    let change = Change { setting, value: case.need.asked().to_string() };
    let what = "a program cannot ask for as large a receive buffer as the load needs".to_owned();
    Some(
        Finding::mended("rmem_max", Place::ReceiveBuffer, what, vec![change])
            .with("/proc/sys/net/core/rmem_max", format!("{} B, which SO_RCVBUF doubles", number(most)))
            .need(format!("{}; the kernel doubles what is asked for: {} B", sum(case), number(case.need.asked())))
            .cost("none by itself: a socket takes memory only while datagrams wait in it; any user may then ask for so much"),
    )
}

/// What a program gets that asks for nothing.
fn default_buffer(case: &Case<'_>) -> Option<Finding> {
    let default = case.facts.settings.rmem_default.filter(|default| *default < case.need.buffer)?;
    let setting = Setting::sysctl("net/core/rmem_default");
    let change = Change { setting, value: case.need.buffer.to_string() };
    let what = "a program that asks for no receive buffer gets too small a one".to_owned();
    Some(
        Finding::mended("rmem_default", Place::ReceiveBuffer, what, vec![change])
            .with("/proc/sys/net/core/rmem_default", format!("{} B", number(default)))
            .need(sum(case))
            .cost(format!(
                "every socket opened from then on may hold up to {} while its reader stalls (udp_mem bounds UDP's \
                 together); better, where the program can: ask for it (SO_RCVBUF {})",
                bytes(case.need.buffer),
                case.need.asked()
            )),
    )
}

/// What all sockets may hold together.
fn all_sockets(case: &Case<'_>) -> Option<Finding> {
    let [low, pressure, hard] = case.facts.settings.udp_mem?;
    let page = case.facts.page.filter(|page| *page > 0)?;
    let taken = case.facts.udp_pages.unwrap_or(0);
    let receivers = case.facts.receivers.len().max(1) as u64;
    let pages = case.need.buffer.div_ceil(page).saturating_mul(receivers);
    let needed = taken.saturating_add(pages);
    let errors = case.facts.memory_errors.unwrap_or_default();
    if needed <= hard && errors.recent == 0 {
        return None;
    }
    // Room for as much again: other sockets need some, too.
    let wanted = needed.max(hard).saturating_mul(2);
    let change = Change {
        setting: Setting::sysctl("net/ipv4/udp_mem"),
        value: format!("{} {} {wanted}", low.max(wanted / 2), pressure.max(wanted / 4 * 3)),
    };
    let what = "all UDP sockets together may not hold what waits during a stall".to_owned();
    let taken = case.facts.udp_pages.map_or_else(|| "unknown".to_owned(), number);
    Some(
        Finding::mended("udp_mem", Place::UdpMemory, what, vec![change])
            .with("/proc/sys/net/ipv4/udp_mem", format!("{low} {pressure} {hard} pages"))
            .with("/proc/net/sockstat", format!("UDP mem {taken} pages"))
            .counted("/proc/net/snmp, Udp MemErrors", "datagrams dropped", errors)
            .need(format!(
                "{} pages of {page} B for {receivers} receiver(s), beside those that are taken",
                number(pages)
            ))
            .cost(format!("UDP may take up to {} of memory", bytes(wanted.saturating_mul(page)))),
    )
}

/// How the buffer is computed.
fn sum(case: &Case<'_>) -> String {
    let need = &case.need;
    if need.stated {
        return format!("{} B: --receive-buffer, doubled by the kernel", number(need.buffer));
    }
    format!(
        "{} datagrams wait after {} at {}, {} B each ({}): {} B, and a third for memory that is given back late: {} B",
        number(need.waiting),
        case.load.stall,
        case.load.rate,
        number(need.truesize),
        case.facts.truesize.source,
        number(need.held),
        number(need.buffer)
    )
}

fn bytes(value: u64) -> String {
    format::bytes(value as f64)
}
