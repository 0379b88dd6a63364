//! The picture of a snapshot: pure, so that a test can look at it.

use std::fmt::Write;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, Wrap};
use weir_service::losses::grouped;
use weir_service::screen::cells::{self, alarm, bar, bit_rate, clock, number, right, table};
use weir_units::format::{counted, shown};

use crate::places::Place;
use crate::watch::lost::{Lost, lost, total, unknown};
use crate::watch::snapshot::{Count, Interface, Processor, Snapshot, Socket, Sort, by};

/// How somebody looks at it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Which sockets come first.
    pub(super) sort: Sort,
    /// Sockets that were scrolled past.
    pub(super) skipped: usize,
}

/// Draws a snapshot, and the last lines of the log.
pub(super) fn draw(frame: &mut Frame<'_>, now: &Snapshot, look: Look, notes: &[String]) {
    let now = &now.shown();
    let notes: Vec<String> = notes.iter().map(|note| shown(note).into_owned()).collect();
    let notes = &notes[..];
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let lost = lost(now);
    // A border and a head above the rows; a quarter of the screen at most, but what a small one has.
    let most = (height / 4).clamp(3, 16);
    let block = |rows: usize| Constraint::Length((2 + rows.clamp(1, most)) as u16);
    let beneath = now.processors.len().max(now.interfaces.len());
    let wide = width >= WIDE;
    let unknown = unknown(now);
    let note_height = if notes.is_empty() { 0 } else { notes.len() as u16 + 1 };
    let unknown_height = unknown.chars().count().div_ceil(width.max(1)).min(2);
    // Lines that nothing else needs; two, where anything is lost.
    let needed = 2 + unknown_height + usize::from(note_height) + 2 + now.sockets.len();
    let tables = 2 * 2 + lost.len().clamp(1, most) + beneath.clamp(1, most);
    let remedies = remedies(&lost, width, height.saturating_sub(needed + tables).max(2));
    let [title, warning, sockets, places, remedy, machine, log, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(unknown_height as u16),
        Constraint::Fill(1),
        block(lost.len()),
        Constraint::Length(remedies.height() as u16),
        block(beneath),
        Constraint::Length(note_height),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(summary(now, &lost), title);
    frame.render_widget(Paragraph::new(unknown.yellow()).wrap(Wrap { trim: true }), warning);
    draw_sockets(frame, now, look, sockets);
    frame.render_widget(place_table(now, &lost), places);
    frame.render_widget(remedies, remedy);
    let times = Constraint::Length(if wide { 44 } else { 38 });
    let [left, _, right] = Layout::horizontal([times, Constraint::Length(1), Constraint::Fill(1)]).areas(machine);
    let rows = usize::from(machine.height).saturating_sub(2);
    frame.render_widget(processor_table(now, rows, wide), left);
    frame.render_widget(interface_table(now), right);
    frame.render_widget(cells::notes(notes), log);
    frame.render_widget(key_line(look.sort), keys);
}

/// What to do about each place at which anything was lost, the worst first, in so many lines at most.
fn remedies<'a>(lost: &[Lost], width: usize, most: usize) -> Text<'a> {
    let mut text = Text::default();
    let mut told: Vec<Place> = Vec::new();
    for row in lost.iter().map(|lost| lost.place.row()) {
        if told.contains(&row.place) {
            continue;
        }
        told.push(row.place);
        let words = format!("{}: {}", row.title, row.remedy.replace('`', ""));
        let lines = wrapped(&words, width);
        // The rest of what does not fit whole is cut, of the first alone.
        if text.height() > 0 && text.height() + lines.len() > most {
            break;
        }
        for (number, line) in lines.into_iter().take(most).enumerate() {
            let title = if number == 0 { line.split_at_checked(row.title.len() + 1) } else { None };
            text.push_line(match title {
                Some((title, rest)) => Line::from(vec![title.to_owned().bold(), rest.to_owned().into()]),
                None => Line::from(line),
            });
        }
    }
    text
}

/// Words in lines of so many columns; what is longer alone has a line of its own.
fn wrapped(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

/// The same in one line, where there is no screen.
pub(in crate::watch) fn line(now: &Snapshot) -> String {
    let lost = lost(now);
    let all = total(&lost);
    let mut line = format!("{} {} in", clock(now.elapsed_s), counted(now.sockets.len(), "socket"));
    let (datagrams, bits) = received(now);
    let _ = write!(line, " {}/s", number(datagrams));
    if let Some(bits) = bits {
        let _ = write!(line, " {}", bit_rate(bits));
    }
    let _ = write!(line, ", lost {}/s ({})", number(all.per_s.unwrap_or(0.0)), grouped(all.total));
    let losing: Vec<&Lost> = lost.iter().filter(|lost| lost.datagrams.per_s.is_some_and(|rate| rate > 0.0)).collect();
    for lost in losing.iter().take(MOST_IN_LINE) {
        let port = lost.port.map(|port| format!(" port {port}")).unwrap_or_default();
        let rate = number(lost.datagrams.per_s.unwrap_or(0.0));
        let _ = write!(line, "; {}{port}: {rate}/s ({})", lost.place.row().title, lost.why);
    }
    if losing.len() > MOST_IN_LINE {
        let _ = write!(line, "; and {}", counted(losing.len() - MOST_IN_LINE, "other"));
    }
    let unknown = unknown(now);
    if !unknown.is_empty() {
        let _ = write!(line, "; {unknown}");
    }
    shown(&line).into_owned()
}

/// Places and ports that a line names: a scan of ports has thousands.
const MOST_IN_LINE: usize = 10;

fn summary<'a>(now: &Snapshot, lost: &[Lost]) -> Text<'a> {
    let all = total(lost);
    let (datagrams, bits) = received(now);
    let drops = format!("lost {}/s ({})", number(all.per_s.unwrap_or(0.0)), grouped(all.total));
    Text::from(Line::from(vec![
        "weir loss ".bold(),
        format!("{} ", clock(now.elapsed_s)).into(),
        format!("  in {}/s{} ", number(datagrams), bits.map(|bits| format!(" {}", bit_rate(bits))).unwrap_or_default())
            .into(),
        "  ".into(),
        if all.per_s.is_some_and(|rate| rate > 0.0) { drops.red().bold() } else { drops.into() },
    ]))
}

/// Datagrams read by all sockets a second, and their bits; without eBPF what the namespaces' UDP took in.
fn received(now: &Snapshot) -> (f64, Option<f64>) {
    let rates = |read: fn(&Socket) -> Option<Count>| {
        // A sum of nothing is -0.
        now.sockets.iter().filter_map(read).filter_map(|count| count.per_s).sum::<f64>() + 0.0
    };
    if now.sockets.iter().any(|socket| socket.received.is_some()) {
        (rates(|socket| socket.received), Some(rates(|socket| socket.received_bytes) * 8.0))
    } else {
        (now.namespaces.iter().filter_map(|namespace| namespace.received.per_s).sum::<f64>() + 0.0, None)
    }
}

fn draw_sockets(frame: &mut Frame<'_>, now: &Snapshot, look: Look, area: Rect) {
    let wide = usize::from(area.width) >= WIDE;
    let cells = if usize::from(area.width) >= WIDEST { 12 } else { 4 };
    let several = now.namespaces.len() > 1;
    let mut sockets: Vec<&Socket> = now.sockets.iter().collect();
    sockets.sort_by(|one, other| by(look.sort, one, other));
    let fit = usize::from(area.height).saturating_sub(2);
    let skipped = look.skipped.min(sockets.len().saturating_sub(fit));
    let row = |socket: &&Socket| {
        let lost = socket.drops.per_s.is_some_and(|rate| rate > 0.0);
        let mut cells = vec![
            Cell::new(socket.address.clone()),
            Cell::new(process(socket, wide)),
            right(rate(socket.received)),
            level(socket, cells),
            right(rate(Some(socket.drops))).style(alarm(lost)),
            right(grouped(socket.drops.total)).style(alarm(lost)),
            right(socket.longest_stall_ms.map_or_else(|| "?".into(), stall)),
        ];
        if wide {
            let bits = socket.received_bytes.and_then(|bytes| bytes.per_s).map(|bytes| bit_rate(bytes * 8.0));
            cells.insert(3, right(bits.unwrap_or_else(|| "?".into())));
            cells.insert(2, right(pid(socket)));
        }
        if several {
            cells.insert(1, Cell::new(now.name_of(socket.namespace)));
        }
        // There is no room for both.
        if several && !wide {
            cells.remove(2);
        }
        Row::new(cells)
    };
    let mut head = vec!["socket", "process", "read/s", "buffer, max", "drops/s", "drops", "stall"];
    // As long as what is in them: the address has the rest.
    let longest = |text: &dyn Fn(&Socket) -> String, least: usize, most: usize| {
        let lengths = now.sockets.iter().map(|socket| text(socket).chars().count());
        Constraint::Length(lengths.max().unwrap_or(0).clamp(least, most) as u16)
    };
    let mut widths = vec![
        Constraint::Fill(1),
        longest(&|socket| process(socket, wide), 7, if wide { 15 } else { 9 }),
        Constraint::Length(8),
        Constraint::Length(cells + 9),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(7),
    ];
    if wide {
        head.insert(3, "payload");
        widths.insert(3, Constraint::Length(11));
        head.insert(2, "pid");
        widths.insert(2, longest(&pid, 3, 7));
    }
    if several {
        head.insert(1, "namespace");
        widths.insert(1, Constraint::Length(10));
    }
    if several && !wide {
        head.remove(2);
        widths.remove(2);
    }
    let numeric = |title: &str| matches!(title, "pid" | "read/s" | "payload" | "drops/s" | "drops" | "stall");
    let shown = sockets.iter().skip(skipped).take(fit).map(row);
    let mut block = Block::new().borders(Borders::TOP);
    if sockets.len() > fit {
        let last = (skipped + fit).min(sockets.len());
        block = block.title(format!(" {}-{last} of {} ", (skipped + 1).min(last), sockets.len()));
    }
    frame.render_widget(table(&head, numeric, shown, &widths).block(block), area);
}

fn level<'a>(socket: &Socket, cells: u16) -> Cell<'a> {
    if socket.buffer_bytes.is_none() {
        return Cell::new(format!("{} bytes", grouped(socket.queue_bytes)));
    }
    let (now, most) = (socket.share(socket.queue_bytes), socket.share(socket.queue_max_bytes));
    let mut parts = bar(now, most, cells).to_vec();
    let text = format!(" {:.0}/{:.0}%", (now * 100.0).min(999.0), (most * 100.0).min(999.0));
    parts.push(if most >= 1.0 { text.red() } else { text.into() });
    Cell::new(Line::from(parts))
}

fn place_table<'a>(now: &Snapshot, lost: &[Lost]) -> Table<'a> {
    let several = now.namespaces.len() > 1;
    let mut head = vec!["lost at", "port", "why", "/s", "total"];
    let mut widths = vec![
        Constraint::Length(28),
        Constraint::Length(5),
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Length(10),
    ];
    if several {
        head.insert(1, "namespace");
        widths.insert(1, Constraint::Length(10));
    }
    let row = |lost: &Lost| {
        let now_lost = lost.datagrams.per_s.is_some_and(|rate| rate > 0.0);
        let row = lost.place.row();
        let mut cells = vec![
            Cell::new(row.title).style(alarm(now_lost)),
            right(lost.port.map_or_else(|| "any".into(), |port| port.to_string())),
            Cell::new(lost.why.clone()),
            right(rate(Some(lost.datagrams))).style(alarm(now_lost)),
            right(grouped(lost.datagrams.total)),
        ];
        if several {
            cells.insert(1, Cell::new(lost.namespace.clone()));
        }
        Row::new(cells)
    };
    let mut rows: Vec<Row<'_>> = lost.iter().map(row).collect();
    if rows.is_empty() {
        rows.push(Row::new([Cell::new("nowhere so far".green())]));
    }
    table(&head, |title| matches!(title, "port" | "/s" | "total"), rows.into_iter(), &widths)
}

/// Of more processors than there are rows, those that do most. What a hypervisor took is told where there is room, or
/// where it took any: then instead of the time in interrupts.
fn processor_table<'a>(now: &Snapshot, rows: usize, wide: bool) -> Table<'a> {
    let stolen = now.processors.iter().any(|processor| processor.steal.pct.is_some_and(|pct| pct >= 0.5));
    let idle = |processor: &&Processor| processor.idle.pct.unwrap_or(100.0);
    let mut processors: Vec<&Processor> = now.processors.iter().collect();
    if processors.len() > rows {
        processors.sort_by(|one, other| idle(one).total_cmp(&idle(other)));
        processors.truncate(rows);
    }
    let row = |processor: &Processor| {
        let share = |pct: Option<f64>| right(pct.map_or_else(|| "-".into(), |pct| format!("{pct:.0}%")));
        let packets = processor.softirq.pct.is_some_and(|pct| pct >= 80.0);
        let steal = || share(processor.steal.pct).style(alarm(processor.steal.pct.is_some_and(|pct| pct >= 5.0)));
        let mut cells = vec![
            right(processor.cpu.to_string()),
            if stolen && !wide { steal() } else { share(processor.irq.pct) },
            share(processor.softirq.pct).style(alarm(packets)),
            share(processor.system.pct),
            share(processor.user.pct),
            right(processor.net_rx.map_or_else(|| "?".into(), |net_rx| rate(Some(net_rx)))),
        ];
        if wide {
            cells.insert(5, steal());
        }
        Row::new(cells)
    };
    let mut widths = [4, 5, 7, 5, 5, 7].map(Constraint::Length).to_vec();
    let mut head = vec!["cpu", if stolen && !wide { "steal" } else { "irq" }, "softirq", "sys", "user", "NETRX/s"];
    if wide {
        widths.insert(5, Constraint::Length(5));
        head.insert(5, "steal");
    }
    let interrupts = now.interrupts.map_or_else(String::new, |count| format!(" {} interrupts/s ", rate(Some(count))));
    table(&head, |_| true, processors.into_iter().map(row), &widths)
        .block(Block::new().borders(Borders::TOP).title(interrupts))
}

fn interface_table<'a>(now: &Snapshot) -> Table<'a> {
    let several = now.namespaces.len() > 1;
    let row = |interface: &Interface| {
        let drops = |count: Count| {
            let lost = count.per_s.is_some_and(|rate| rate > 0.0);
            right(format!("{} ({})", rate(Some(count)), grouped(count.total))).style(alarm(lost))
        };
        let name = &interface.name;
        Row::new([
            Cell::new(if several { format!("{name} {}", now.name_of(interface.namespace)) } else { name.clone() }),
            right(rate(Some(interface.received))),
            drops(interface.receive_drops),
            drops(interface.send_drops),
        ])
    };
    let widths = [Constraint::Fill(1), Constraint::Length(9), Constraint::Length(13), Constraint::Length(11)];
    let head = ["interface", "in/s", "lost in/s (n)", "out/s (n)"];
    table(&head, |title| title != "interface", now.interfaces.iter().map(row), &widths)
}

fn key_line<'a>(sort: Sort) -> Line<'a> {
    let key = |of: Sort, name: &'static str| if of == sort { name.bold() } else { name.dim() };
    Line::from(vec![
        "q: end   first: ".dim(),
        key(Sort::Drops, "d drops"),
        "  ".into(),
        key(Sort::Rate, "r rate"),
        "  ".into(),
        key(Sort::Buffer, "b buffer"),
        "  ".into(),
        key(Sort::Stall, "s stall"),
        "  ".into(),
        key(Sort::Port, "p port"),
        "   arrows: scroll".dim(),
    ])
}

/// `?`: not known, `-`: not yet.
fn rate(count: Option<Count>) -> String {
    match count {
        None => "?".into(),
        Some(count) => count.per_s.map_or_else(|| "-".into(), number),
    }
}

fn stall(ms: f64) -> String {
    match ms {
        ms if ms >= 9_999.5 => format!("{:.0} s", ms / 1000.0),
        ms if ms >= 99.5 => format!("{ms:.0} ms"),
        ms if ms > 0.0 => format!("{ms:.1} ms"),
        _ => "none".into(),
    }
}

/// Its name; where there is no column for its number and no name, that.
fn process(socket: &Socket, wide: bool) -> String {
    match &socket.process {
        Some(name) => name.clone(),
        None if wide => "?".into(),
        None => pid(socket),
    }
}

fn pid(socket: &Socket) -> String {
    socket.pid.map_or_else(|| "?".into(), |pid| pid.to_string())
}

/// Columns from which on more is shown of each thing.
const WIDE: usize = 110;

/// From here on there is room for long bars.
const WIDEST: usize = 140;

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use weir_service::screen::MOST_NOTES;

    use super::*;
    use crate::watch::fixture;
    use crate::watch::snapshot::Drops;

    fn picture(width: u16, height: u16, now: &Snapshot, look: Look, notes: &[&str]) -> String {
        let notes: Vec<String> = notes.iter().map(|&note| note.to_owned()).collect();
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, now, look, &notes)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_machine_that_loses_at_a_glance() {
        insta::assert_snapshot!("wide", picture(140, 26, &fixture::at(60), Look::default(), &[]));
        insta::assert_snapshot!("small", picture(80, 24, &fixture::at(60), Look::default(), &[]));
    }

    /// All that is to be done about each loss is there, while there are free lines, and what the hypervisor took.
    #[test]
    fn remedies_are_whole_while_there_is_room() {
        let mut now = fixture::at(60);
        now.processors[0].steal.pct = Some(12.0);
        for (width, height) in [(120, 30), (140, 26)] {
            let picture = picture(width, height, &now, Look::default(), &[]);
            let words: Vec<&str> = picture.split([' ', '\n', '"']).filter(|word| !word.is_empty()).collect();
            let text = words.join(" ");
            for lost in lost(&now) {
                let row = lost.place.row();
                let remedy = format!("{}: {}", row.title, row.remedy.replace('`', ""));
                assert!(text.contains(&remedy), "{remedy}: {picture}");
            }
            assert!(text.contains(" user steal NETRX/s ") && text.contains(" 12% "), "{picture}");
        }
        let narrow = picture(80, 24, &now, Look::default(), &[]);
        assert!(narrow.contains(" steal softirq ") && narrow.contains("receive buffer full: a larger"), "{narrow}");
    }

    /// Whole numbers: a part of one is another process's.
    #[test]
    fn processes_have_their_numbers_where_it_is_wide() {
        let mut now = fixture::at(60);
        now.sockets.iter_mut().for_each(|socket| socket.pid = Some(4_194_000 + u32::from(socket.port) % 100));
        for several in [false, true] {
            if several {
                now.namespaces.push(Default::default());
            }
            for width in [WIDE as u16, 120, 140, 200] {
                let picture = picture(width, 30, &now, Look::default(), &[]);
                for socket in &now.sockets {
                    assert!(picture.contains(&format!(" {} ", socket.pid.unwrap())), "{width}: {picture}");
                }
            }
        }
        let picture = picture(120, 30, &fixture::at(60), Look::default(), &[]);
        assert!(picture.contains("192.168.100.100:5000 ") && picture.contains(" receiver "), "{picture}");
    }

    #[test]
    fn without_privilege_and_before_the_first_rates() {
        insta::assert_snapshot!("unprivileged", picture(80, 24, &fixture::unprivileged(60), Look::default(), &[]));
        insta::assert_snapshot!("first", picture(80, 24, &fixture::first(), Look::default(), &[]));
    }

    #[test]
    fn several_namespaces_and_more_sockets_than_fit() {
        let mut now = fixture::at(60);
        now.namespaces.push(Default::default());
        let socket = now.sockets[3].clone();
        now.sockets.extend((0..20).map(|port| Socket { port, address: format!("[::]:{port}"), ..socket.clone() }));
        let look = Look { sort: Sort::Port, skipped: 18 };
        insta::assert_snapshot!("scrolled", picture(120, 24, &now, look, &["a note of the log"]));
        insta::assert_snapshot!("several", picture(80, 24, &now, Look::default(), &[]));
    }

    #[test]
    fn small_terminals_and_empty_machines_do_no_harm() {
        for (width, height) in [(1, 1), (20, 4), (80, 24), (300, 100)] {
            let look = Look { skipped: 1000, ..Look::default() };
            picture(width, height, &fixture::at(60), look, &["note"; MOST_NOTES]);
            picture(width, height, &Snapshot::default(), Look::default(), &[]);
        }
    }

    #[test]
    fn names_that_others_choose_steer_no_terminal() {
        let evil = "\u{1b}[2J\u{7}\n\u{202e}x";
        let now = fixture::named(evil);
        let picture = picture(200, 40, &now, Look::default(), &[evil]);
        assert!(picture.lines().all(|line| shown(line) == line), "{picture}");
        assert!(picture.matches("\\u{1b}[2J\\u{7}\\n\\u{202e}x").count() >= 4, "{picture}");
        assert_eq!(shown(&line(&now)), line(&now));
    }

    #[test]
    fn a_line_says_the_same() {
        assert_eq!(
            line(&fixture::at(60)),
            "0:01:00 4 sockets in 16,300/s 65.2 Mbit/s, lost 1,015/s (60,900); receive buffer full port 5000: 1,000/s \
             (SOCKET_RCVBUFF); receive ring full: 12/s (eth0 rx_missed); port closed port 9999: 3.0/s (NO_SOCKET)"
        );
        assert!(line(&fixture::unprivileged(60)).ends_with("(needs CAP_BPF and CAP_PERFMON))"));
        assert!(line(&fixture::first()).starts_with("0:00:00 4 sockets in 0/s, lost 0/s (0)"));
        // A scan of ports.
        let mut scanned = fixture::at(60);
        let closed = scanned.drops.pop().unwrap();
        scanned.drops = (1..=1000).map(|port| Drops { port: Some(port), ..closed.clone() }).collect();
        scanned.counted.clear();
        assert!(line(&scanned).ends_with("port 10: 3.0/s (NO_SOCKET); and 990 others"), "{}", line(&scanned));
    }
}
