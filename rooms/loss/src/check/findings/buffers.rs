//! Memory for datagrams that wait for their reader.

use weir_units::format;

use super::{Case, Change, Finding, number};
use crate::check::facts::Receiver;
use crate::check::setting::{Setting, WantedBuffer};
use crate::places::Place;

pub(super) fn audit(case: &Case<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        case.facts.receivers.iter().filter_map(|receiver| receiver_buffer(case, receiver)).collect();
    findings.extend(most_buffer(case));
    if case.facts.receivers.is_empty() {
        findings.extend(default_buffer(case));
    }
    findings.extend(all_sockets(case));
    findings
}

/// The buffer of a socket that is followed.
fn receiver_buffer(case: &Case<'_>, receiver: &Receiver) -> Option<Finding> {
    if receiver.buffer >= case.need.buffer {
        return None;
    }
    let setting = Setting::SocketBuffer { cookie: receiver.cookie, address: receiver.address.to_string() };
    // What is asked for is doubled: an even number comes out as it is.
    let value = (case.need.asked() * 2).to_string();
    let change = Change { shown_by: Some(WantedBuffer::Like(setting.clone())), setting, value };
    let who = match (&receiver.process, receiver.pid) {
        (Some(process), Some(pid)) => format!(" ({process}, pid {pid})"),
        _ => String::new(),
    };
    let what = format!("the receive buffer of {}{who} is too small", receiver.address);
    let finding = Finding::mended("receive_buffer", Place::ReceiveBuffer, what, vec![change])
        .with(
            "sock_diag, SK_MEMINFO",
            format!("rcvbuf {} B, {} B taken", number(receiver.buffer), number(receiver.level)),
        )
        .counted("sock_diag, SK_MEMINFO", "drops", receiver.drops)
        .need(sum(case))
        .cost(format!(
            "up to {} of memory while its reader stalls; the program need not restart, and has its own buffer again \
             when it does",
            bytes(case.need.buffer)
        ));
    Some(if receiver.pid.is_none() { Finding { changes: Vec::new(), ..finding } } else { finding })
}

/// What a program may ask for.
fn most_buffer(case: &Case<'_>) -> Option<Finding> {
    let most = case.facts.settings.rmem_max.filter(|most| *most < case.need.asked())?;
    let setting = Setting::sysctl("net/core/rmem_max");
    let change = Change { setting, value: case.need.asked().to_string(), shown_by: Some(WantedBuffer::Enough) };
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
    let change = Change { setting, value: case.need.buffer.to_string(), shown_by: Some(WantedBuffer::Nothing) };
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
        shown_by: Some(WantedBuffer::Enough),
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
