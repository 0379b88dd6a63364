//! What is lost now, whatever was stated: nothing is all right while something that counts losses moves.

use std::collections::BTreeSet;

use super::{Case, Finding, number};
use crate::check::facts::{Lost, Receiver};
use crate::places::{Place, Stage};

/// What no finding tells yet.
pub(super) fn audit(case: &Case<'_>, told: &[Finding]) -> Vec<Finding> {
    let facts = case.facts;
    let places: BTreeSet<Place> = told.iter().map(|finding| finding.place).collect();
    let receivers = || facts.receivers.iter().chain(&facts.losing);
    // A receiver whose buffer or reader is found wrong has its finding.
    let has_finding = |receiver: &Receiver| {
        told.iter().any(|finding| {
            matches!(finding.name, "receive_buffer" | "reader") && finding.what.contains(&receiver.who())
        })
    };
    let mut findings = Vec::new();
    for lost in facts.losses.iter().filter(|lost| !lost.stray) {
        let receiver = receivers().find(|receiver| Some(receiver.cookie) == lost.cookie);
        let known = match receiver {
            Some(receiver) => lost.place == Place::ReceiveBuffer && has_finding(receiver),
            None => lost.place.stage() != Stage::Socket && places.contains(&lost.place),
        };
        if !known {
            findings.push(losing(lost, receiver));
        }
    }
    let named = |receiver: &Receiver| facts.losses.iter().any(|lost| lost.cookie == Some(receiver.cookie));
    let at_socket = facts.losses.iter().filter(|lost| lost.place.stage() == Stage::Socket);
    let at_socket: BTreeSet<Place> = at_socket.map(|lost| lost.place).collect();
    for receiver in receivers().filter(|receiver| receiver.drops.recent > 0) {
        if !named(receiver) && !has_finding(receiver) {
            // What its namespace counted meanwhile, if it is of one kind.
            let place = at_socket.first().filter(|_| at_socket.len() == 1).copied().unwrap_or(Place::Other);
            findings.retain(|finding| finding.place != place);
            let (datagrams, source) = (receiver.drops.recent, "sock_diag, SK_MEMINFO".to_owned());
            findings.push(losing(&Lost { place, datagrams, source, ..Lost::default() }, Some(receiver)));
        }
    }
    findings
}

fn losing(lost: &Lost, receiver: Option<&Receiver>) -> Finding {
    let Lost { place, datagrams, reason, function, .. } = lost;
    let title = place.title(function);
    let what = match (receiver, lost.ports_in_words()) {
        (Some(receiver), _) => format!("{} is losing datagrams now: {title}", receiver.who()),
        _ if lost.source == "send calls" => format!("calls that send fail now: {reason}, {title}"),
        (None, None) => format!("datagrams are lost now: {title}"),
        (None, Some(ports)) => format!("datagrams to {ports} are lost now: {title}"),
    };
    let port = receiver.map(|receiver| receiver.address.port()).or(lost.ports.first().copied());
    let account =
        port.map_or_else(|| "weir loss account".to_owned(), |port| format!("weir loss account --port {port}"));
    let remedy = if *place == Place::Other { String::new() } else { format!("{}; ", place.remedy(reason, function)) };
    let why = match (reason.as_str(), function.as_str()) {
        ("", "") => String::new(),
        (reason, "") => format!("{reason}: "),
        (reason, function) => format!("{reason} in {function}: "),
    };
    let all = if lost.cookie.is_none() && lost.ports.is_empty() && receiver.is_none() { ", of all ports" } else { "" };
    let finding = Finding::advised("losing", *place, what, format!("{remedy}{account} tells how many of how many"))
        .with(lost.source.clone(), format!("{why}{} while watched{all}", number(*datagrams)));
    let finding = match receiver {
        Some(receiver) => finding
            .with(
                "sock_diag, SK_MEMINFO",
                format!("rcvbuf {} B, {} B taken", number(receiver.buffer), number(receiver.level)),
            )
            .counted("sock_diag, SK_MEMINFO", "drops", receiver.drops),
        None => finding,
    };
    Finding { title, ..finding }.need("none").cost("as what is changed")
}
