//! An account in words and a table, for people.

mod sources;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;

use weir_service::losses::grouped;
use weir_units::format::shown;

use crate::account::book::{Account, Entry, Ledger, Receiver};
use crate::places::Place;

/// A line of what is told, in which others have named processes, interfaces and namespaces.
macro_rules! line {
    ($text:expr, $($words:tt)*) => {{
        $text.push_str(&shown(&format!($($words)*)));
        $text.push('\n');
    }};
}

/// The account as text, a paragraph a receiver.
pub fn of(account: &Account) -> String {
    let mut all = String::new();
    let text = &mut all;
    for ledger in &account.ledgers {
        tell(text, account, ledger);
        text.push('\n');
    }
    if account.ledgers.is_empty() {
        text.push_str("no datagram was seen\n\n");
    }
    let sources = match (&account.sources.trace, &account.sources.trace_refused) {
        (Some(trace), None) => format!("trace ({trace})"),
        (Some(trace), Some(refused)) => format!("trace ({trace}; more was refused: {refused})"),
        (None, Some(refused)) => format!("no trace ({refused})"),
        (None, None) => "no trace".to_owned(),
    };
    line!(text, "from {sources}, {}; {:.1} s", account.sources.counters.join(", "), account.took_s);
    for warning in &account.warnings {
        line!(text, "warning: {warning}");
    }
    all
}

/// One ledger.
fn tell(text: &mut String, account: &Account, ledger: &Ledger) {
    line!(text, "{}", heading(account, ledger));
    let count = |count: Option<u64>| count.map_or_else(|| "unknown".to_owned(), grouped);
    let base = ledger.sent.or(ledger.arrived);
    let mut rows: Vec<[String; 4]> = vec![row("sent", count(ledger.sent), String::new(), senders(ledger))];
    if ledger.sent.is_none() || ledger.arrived != ledger.received {
        rows.push(row("arrived", count(ledger.arrived), String::new(), String::new()));
    }
    rows.push(row("received", count(ledger.received), share(ledger.received, base), String::new()));
    for entry in &ledger.places {
        let title = format!("- {}", title(entry));
        rows.push(row(&title, grouped(entry.datagrams), share(Some(entry.datagrams), base), why(account, entry)));
    }
    let places: Vec<String> =
        ledger.pending_where.iter().map(|pending| format!("{} in {}", pending.datagrams, pending.place)).collect();
    if ledger.pending != Some(0) {
        rows.push(row("pending", count(ledger.pending), share(ledger.pending, base), places.join(", ")));
    }
    let unexplained = ledger.unexplained.map_or_else(
        || "unknown".to_owned(),
        |rest| {
            let sign = if rest < 0 { "-" } else { "" };
            format!("{sign}{}", grouped(rest.unsigned_abs()))
        },
    );
    rows.push(row("unexplained", unexplained, String::new(), String::new()));
    columns(text, "  ", &rows);
    if let Some(by_source) = &ledger.by_source {
        sources::tell(text, by_source);
    }
    for entry in &ledger.places {
        for (within, remedy) in remedies(account, entry) {
            line!(text, "  {}{within}: {remedy}", title(entry));
        }
    }
    for sentence in &ledger.explanation {
        line!(text, "  {sentence}");
    }
    if let Some(command) = apply(account, ledger) {
        line!(text, "  to provide that buffer: {command}");
    }
    for entry in &ledger.places {
        if let Some(believed) = &entry.believed {
            let counts: Vec<String> = entry.also.iter().map(|also| format!("{} {}", also.source, also.count)).collect();
            let counts = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
            line!(text, "  {}: believed is {believed}{counts}", title(entry));
        }
    }
    for unknown in &ledger.unknown {
        line!(text, "  unknown: {unknown}");
    }
}

fn columns(text: &mut String, indent: &str, rows: &[[String; 4]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (names, counts, shares) = (width(0), width(1), width(2));
    for [name, count, share, rest] in rows {
        let line = format!("{indent}{name:names$}  {count:>counts$}  {share:>shares$}  {rest}");
        line!(text, "{}", line.trim_end());
    }
}

fn row(name: &str, count: String, share: String, rest: String) -> [String; 4] {
    [name.to_owned(), count, share, rest]
}

fn heading(account: &Account, ledger: &Ledger) -> String {
    let Some(receiver) = &ledger.receiver else {
        return format!("port {}: no receiver", ledger.port);
    };
    let address = receiver.address.map_or_else(|| format!("port {}", ledger.port), |address| address.to_string());
    let group = match receiver.group {
        Some(group) if receiver.address.is_none_or(|address| address.ip() != group) => format!(", group {group}"),
        _ => String::new(),
    };
    let others = match receiver.with.len() {
        0 => String::new(),
        1 => ", and another socket".to_owned(),
        n => format!(", and {n} other sockets"),
    };
    let process = match (&receiver.process, receiver.pid) {
        (Some(name), Some(pid)) => format!(" {name} ({pid}){}", or_a_child(receiver.by_descent)),
        _ => String::new(),
    };
    format!("{address}{process}{group}{others}{}", in_namespace(account, receiver))
}

/// The command that carries the advice out.
fn apply(account: &Account, ledger: &Ledger) -> Option<String> {
    let buffer = ledger.advice.as_ref()?.receive_buffer?;
    let receiver = ledger.receiver.as_ref()?;
    let mut command = format!("weir loss check --port {} --receive-buffer {buffer}B", ledger.port);
    let namespace = account.namespaces.iter().find(|namespace| namespace.inode == receiver.namespace);
    if let Some(name) = namespace.and_then(|namespace| namespace.name.as_deref()) {
        let _ = write!(command, " --netns {name}");
    }
    Some(command + " --apply")
}

/// Which namespace, where there are several.
fn in_namespace(account: &Account, receiver: &Receiver) -> String {
    if account.namespaces.len() < 2 { String::new() } else { format!(" in {}", namespace(account, receiver.namespace)) }
}

fn namespace(account: &Account, inode: u32) -> String {
    if inode == 0 {
        return "a namespace that is not known".to_owned();
    }
    let known = account.namespaces.iter().find(|namespace| namespace.inode == inode);
    known.and_then(|namespace| namespace.name.clone()).unwrap_or_else(|| format!("namespace {inode}"))
}

fn senders(ledger: &Ledger) -> String {
    match &ledger.senders[..] {
        [] => String::new(),
        [one] => match (&one.process, one.pid) {
            (Some(name), Some(pid)) => format!("by {name} ({pid}){}", or_a_child(one.by_descent)),
            _ => String::new(),
        },
        several => format!("by {} sockets", several.len()),
    }
}

/// Of a socket that is known for the command's alone, and not who held it.
fn or_a_child(by_descent: bool) -> &'static str {
    if by_descent { " or a child of it" } else { "" }
}

/// Reason, function and namespaces of a loss.
fn why(account: &Account, entry: &Entry) -> String {
    let mut words: Vec<String> = Vec::new();
    match (&entry.reason, &entry.function) {
        (Some(reason), Some(function)) => words.push(format!("{reason} in {function}")),
        (Some(reason), None) => words.push(reason.clone()),
        (None, _) if entry.source != "trace" && entry.place != Place::Network => words.push(entry.source.clone()),
        _ => {}
    }
    let causes: BTreeSet<(&str, &str)> = entry.parts.iter().map(|part| (&*part.reason, &*part.function)).collect();
    if causes.len() > 1 {
        words.push(format!("and {} more", causes.len() - 1));
    }
    match &within(account, entry)[..] {
        [] => {}
        [(inode, _)] => words.push(format!("({})", namespace(account, *inode))),
        several => {
            let each =
                |(inode, datagrams): &(u32, u64)| format!("{} in {}", grouped(*datagrams), namespace(account, *inode));
            words.push(format!("({})", several.iter().map(each).collect::<Vec<_>>().join(", ")));
        }
    }
    words.join(" ")
}

/// What a loss is called, where all of it is of one kind.
fn title(entry: &Entry) -> &'static str {
    let title = entry.place.title(entry.function.as_deref().unwrap_or_default());
    let is_one = entry.parts.iter().all(|part| entry.place.title(&part.function) == title);
    if is_one { title } else { entry.place.row().title }
}

/// The namespaces in which it was lost, and how many in each, the most first; none, where there is but one.
fn within(account: &Account, entry: &Entry) -> Vec<(u32, u64)> {
    if account.namespaces.len() < 2 {
        return Vec::new();
    }
    let mut counts: Vec<(u32, u64)> = Vec::new();
    for part in &entry.parts {
        match counts.iter_mut().find(|(inode, _)| *inode == part.namespace) {
            Some((_, datagrams)) => *datagrams += part.datagrams,
            None => counts.push((part.namespace, part.datagrams)),
        }
    }
    counts.sort_by_key(|(_, datagrams)| Reverse(*datagrams));
    if counts.len() > 1 { counts } else { entry.namespace.map(|inode| (inode, entry.datagrams)).into_iter().collect() }
}

/// What to change, and in which namespaces, where it was lost in several.
fn remedies<'a>(account: &Account, entry: &'a Entry) -> Vec<(String, &'a str)> {
    let mut all: Vec<(&str, Vec<u32>)> = Vec::new();
    for part in &entry.parts {
        let remedy = entry.place.remedy(&part.reason, &part.function);
        match all.iter_mut().find(|(known, _)| *known == remedy) {
            Some((_, within)) if within.contains(&part.namespace) => {}
            Some((_, within)) => within.push(part.namespace),
            None => all.push((remedy, vec![part.namespace])),
        }
    }
    let several = within(account, entry);
    // What the entry itself says is of the most of them, or of its receiver.
    if all.first().is_none_or(|(first, _)| *first != entry.remedy) {
        all = vec![(entry.remedy.as_str(), several.iter().map(|(inode, _)| *inode).collect())];
    }
    let place = |within: &[u32]| {
        let names: Vec<String> = within.iter().map(|inode| namespace(account, *inode)).collect();
        if several.len() < 2 { String::new() } else { format!(" (in {})", names.join(", ")) }
    };
    all.into_iter().map(|(remedy, within)| (place(&within), remedy)).collect()
}

fn share(part: Option<u64>, whole: Option<u64>) -> String {
    match (part, whole) {
        (Some(part), Some(whole)) if whole > 0 => {
            let percent = part as f64 * 100.0 / whole as f64;
            if part > 0 && percent < 0.01 { "< 0.01 %".to_owned() } else { format!("{percent:.2} %") }
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::book::{Count, Namespace, Part, Pending, Sender, Sources};

    fn entry(place: Place, datagrams: u64) -> Entry {
        Entry {
            place,
            datagrams,
            namespace: Some(2),
            source: "trace".into(),
            remedy: place.row().remedy.into(),
            ..Entry::default()
        }
    }

    #[test]
    fn an_account_for_people() {
        let full = Entry {
            reason: Some("SOCKET_RCVBUFF".into()),
            function: Some("udp_queue_rcv_one_skb".into()),
            also: vec![Count { source: "Udp.RcvbufErrors".into(), count: 71 }],
            believed: Some("the trace: the counter counts buffers, and other sockets and ports, too".into()),
            ..entry(Place::ReceiveBuffer, 4544)
        };
        let refused = Entry {
            namespace: Some(1),
            source: "send calls".into(),
            reason: Some("ENETUNREACH".into()),
            ..entry(Place::NoRoute, 3)
        };
        let ledger = Ledger {
            port: 5000,
            receiver: Some(Receiver {
                address: Some("0.0.0.0:5000".parse().unwrap()),
                cookie: Some(7),
                namespace: 2,
                pid: Some(4711),
                process: Some("rsyslogd".into()),
                by_descent: false,
                group: None,
                with: Vec::new(),
            }),
            sent: Some(1_006_400),
            departed: Some(1_006_397),
            arrived: Some(1_006_397),
            received: Some(1_001_851),
            pending: Some(2),
            pending_where: vec![Pending { place: "receive queue".into(), datagrams: 2 }],
            places: vec![refused, full],
            unexplained: Some(0),
            explanation: vec![
                "its reader did not read for 41.2 ms at the longest, while datagrams waited; in all for 41.2 ms".into(),
            ],
            senders: vec![Sender {
                cookie: 3,
                namespace: 1,
                pid: Some(12),
                process: Some("weir".into()),
                sent: 1,
                ..Sender::default()
            }],
            ..Ledger::default()
        };
        let nobody = Ledger {
            port: 5001,
            arrived: Some(10),
            received: Some(0),
            pending: Some(0),
            places: vec![entry(Place::PortClosed, 8)],
            unexplained: Some(2),
            unknown: vec!["before this host: nobody was seen sending here".into()],
            ..Ledger::default()
        };
        let namespace = |inode, name: &str| Namespace { inode, name: Some(name.into()), ..Namespace::default() };
        let account = Account {
            took_s: 10.31,
            sources: Sources {
                trace: Some("everything".into()),
                trace_refused: None,
                counters: vec!["sock_diag".into(), "snmp".into()],
            },
            namespaces: vec![namespace(1, "left"), namespace(2, "right")],
            ledgers: vec![ledger, nobody],
            warnings: vec!["port 5001: nobody has bound it in the namespaces followed".into()],
            ..Account::default()
        };
        insta::assert_snapshot!(of(&account));
    }

    #[test]
    fn who_sent_is_said_to_be_the_command_only_where_it_was_seen() {
        let said = |by_descent| {
            let sender = Sender { pid: Some(7), process: Some("sh".into()), by_descent, ..Sender::default() };
            let receiver = Receiver { pid: Some(7), process: Some("sh".into()), by_descent, ..Receiver::default() };
            let ledger = Ledger { senders: vec![sender], receiver: Some(receiver), ..Ledger::default() };
            of(&Account { ledgers: vec![ledger], ..Account::default() })
        };
        assert_eq!(said(true).matches("sh (7) or a child of it\n").count(), 2, "{}", said(true));
        assert_eq!(said(false).matches("sh (7)\n").count(), 2, "{}", said(false));
    }

    #[test]
    fn a_loss_in_two_namespaces_is_told_and_mended_in_each() {
        let part = |datagrams, reason: &str, function: &str, namespace| Part {
            datagrams,
            reason: reason.into(),
            function: function.into(),
            namespace,
        };
        let told = |place: Place, parts: Vec<Part>| {
            let most = &parts[0];
            let (reason, function) = (Some(most.reason.clone()), Some(most.function.clone()));
            let remedy = place.remedy(&most.reason, &most.function).into();
            let datagrams = parts.iter().map(|part| part.datagrams).sum();
            let lost =
                Entry { namespace: Some(most.namespace), reason, function, remedy, parts, ..entry(place, datagrams) };
            let namespace = |inode, name: &str| Namespace { inode, name: Some(name.into()), ..Namespace::default() };
            let namespaces = vec![namespace(1, "blr"), namespace(2, "blb")];
            let ledgers = vec![Ledger { port: 5000, places: vec![lost], ..Ledger::default() }];
            of(&Account { ledgers, namespaces, ..Account::default() })
        };
        let rule = |datagrams, namespace| part(datagrams, "NETFILTER_DROP", "nf_hook_slow", namespace);
        let text = told(Place::Firewall, vec![rule(1200, 2), rule(100, 1)]);
        assert!(text.contains("NETFILTER_DROP in nf_hook_slow (1,200 in blb, 100 in blr)"), "{text}");
        let title = Place::Firewall.row().title;
        assert!(text.contains(&format!("  {title} (in blb, blr): ")), "{text}");
        let text = told(Place::Firewall, vec![rule(1200, 2), part(100, "XFRM_POLICY", "ip_forward", 1)]);
        assert!(text.contains(&format!("  {title} (in blr): an IPsec policy")), "{text}");
        // A bridge's port of a smaller MTU, and one that is isolated.
        let port = |datagrams, function: &str| part(datagrams, "NOT_SPECIFIED", function, 2);
        let text = told(Place::Transmit, vec![port(400, "br_dev_queue_push_xmit"), port(9, "br_nf_dev_queue_xmit")]);
        assert!(
            text.contains("- larger than the MTU of a bridge port") && text.matches("same MTU").count() == 1,
            "{text}"
        );
        let text = told(Place::Transmit, vec![port(400, "br_dev_queue_push_xmit"), port(9, "br_forward")]);
        assert!(text.contains("same MTU") && text.contains("isolated ports"), "{text}");
    }

    #[test]
    fn what_is_unknown_is_no_number() {
        let ledger = Ledger {
            port: 5000,
            unknown: vec!["what was sent: only a full trace or a session tells (--sent FILE)".into()],
            ..Ledger::default()
        };
        let sources = Sources { trace_refused: Some("trace: not permitted".into()), ..Sources::default() };
        insta::assert_snapshot!(of(&Account { ledgers: vec![ledger], sources, ..Account::default() }));
    }

    #[test]
    fn names_that_others_choose_steer_no_terminal() {
        let told = |name: &str| {
            let namespace = |inode| Namespace { inode, name: Some(name.into()), ..Namespace::default() };
            let sender = Sender {
                cookie: 3,
                namespace: 1,
                pid: Some(12),
                process: Some(name.into()),
                sent: 1,
                ..Sender::default()
            };
            let lost = Entry { source: format!("{name} rx_missed"), ..entry(Place::ReceiveRing, 4) };
            let receiver = Receiver { pid: Some(1), process: Some(name.into()), namespace: 2, ..Receiver::default() };
            let ledger = Ledger {
                receiver: Some(receiver),
                places: vec![lost],
                unknown: vec![format!("how much of {name} is of this traffic")],
                senders: vec![sender],
                ..Ledger::default()
            };
            let sources = Sources { trace_refused: Some(name.into()), ..Sources::default() };
            let namespaces = vec![namespace(1), namespace(2)];
            let (ledgers, warnings) = (vec![ledger], vec![name.to_owned()]);
            of(&Account { ledgers, namespaces, sources, warnings, ..Account::default() })
        };
        let (harmless, evil) = (told("eth0"), told("\u{1b}[2J\u{7}\n\u{202e}\u{9b}x"));
        assert_eq!(evil.lines().count(), harmless.lines().count(), "{evil:?}");
        assert!(harmless.matches("eth0").count() >= 7, "{harmless}");
        assert_eq!(
            evil.matches("\\u{1b}[2J\\u{7}\\n\\u{202e}\\u{9b}x").count(),
            harmless.matches("eth0").count(),
            "{evil}"
        );
        assert!(evil.lines().all(|line| shown(line) == line), "{evil:?}");
    }
}
