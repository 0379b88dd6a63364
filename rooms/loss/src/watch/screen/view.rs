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
use crate::watch::snapshot::{Count, Interface, Processor, Snapshot, Socket, Sort, Time, by};

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
    for place in lost.iter().map(|lost| lost.place) {
        if told.contains(&place) {
            continue;
        }
        told.push(place);
        let row = place.row();
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
    // As long as what is in them: the address has the rest.
    let longest = |text: &dyn Fn(&Socket) -> String, least: usize, most: usize| {
        let lengths = now.sockets.iter().map(|socket| text(socket).chars().count());
        lengths.max().unwrap_or(0).clamp(least, most) as u16
    };
    let name = |socket: &Socket| process(socket, wide);
    let name_width = longest(&name, 7, if wide { 15 } else { 9 });
    let is_losing = |socket: &Socket| alarm(socket.drops.per_s.is_some_and(|rate| rate > 0.0));
    let payload = |socket: &Socket| {
        let bits = socket.received_bytes.and_then(|bytes| bytes.per_s).map(|bytes| bit_rate(bytes * 8.0));
        right(bits.unwrap_or_else(|| "?".into()))
    };
    let longest_stall = |socket: &Socket| right(socket.longest_stall_ms.map_or_else(|| "?".into(), stall));
    let columns: [Column<'_, Socket>; 10] = [
        (true, "socket", Constraint::Fill(1), &|socket| Cell::new(socket.address.clone())),
        (several, "namespace", Constraint::Length(10), &|socket| Cell::new(now.name_of(socket.namespace))),
        // There is no room for both.
        (wide || !several, "process", Constraint::Length(name_width), &|socket| Cell::new(name(socket))),
        (wide, "pid", Constraint::Length(longest(&pid, 3, 7)), &|socket| right(pid(socket))),
        (true, "read/s", Constraint::Length(8), &|socket| right(rate(socket.received))),
        (wide, "payload", Constraint::Length(11), &payload),
        (true, "buffer, max", Constraint::Length(cells + 9), &|socket| level(socket, cells)),
        (true, "drops/s", Constraint::Length(7), &|socket| right(rate(Some(socket.drops))).style(is_losing(socket))),
        (true, "drops", Constraint::Length(9), &|socket| right(grouped(socket.drops.total)).style(is_losing(socket))),
        (true, "stall", Constraint::Length(7), &longest_stall),
    ];
    let shown = sockets.into_iter().skip(skipped).take(fit);
    let mut block = Block::new().borders(Borders::TOP);
    let all = now.sockets.len();
    if all > fit {
        let last = (skipped + fit).min(all);
        block = block.title(format!(" {}-{last} of {all} ", (skipped + 1).min(last)));
    }
    frame.render_widget(of_columns(&columns, shown).block(block), area);
}

/// Whether it is shown, its head, its width, and its cell of a thing.
type Column<'a, T> = (bool, &'static str, Constraint, &'a dyn Fn(&T) -> Cell<'static>);

/// Heads of columns that do not stand right.
const TEXTS: [&str; 7] = ["socket", "namespace", "process", "buffer, max", "lost at", "why", "interface"];

fn of_columns<'a, T: 'a>(columns: &[Column<'_, T>], things: impl Iterator<Item = &'a T>) -> Table<'static> {
    let shown: Vec<&Column<'_, T>> = columns.iter().filter(|column| column.0).collect();
    let head: Vec<&'static str> = shown.iter().map(|column| column.1).collect();
    let widths: Vec<Constraint> = shown.iter().map(|column| column.2).collect();
    let rows = things.map(|thing| Row::new(shown.iter().map(|column| (column.3)(thing)).collect::<Vec<_>>()));
    table(&head, |title| !TEXTS.contains(&title), rows, &widths)
}

fn level(socket: &Socket, cells: u16) -> Cell<'static> {
    if socket.buffer_bytes.is_none() {
        return Cell::new(format!("{} bytes", grouped(socket.queue_bytes)));
    }
    let (now, most) = (socket.share(socket.queue_bytes), socket.share(socket.queue_max_bytes));
    let mut parts = bar(now, most, cells).to_vec();
    let text = format!(" {:.0}/{:.0}%", (now * 100.0).min(999.0), (most * 100.0).min(999.0));
    parts.push(if most >= 1.0 { text.red() } else { text.into() });
    Cell::new(Line::from(parts))
}

fn place_table(now: &Snapshot, lost: &[Lost]) -> Table<'static> {
    let several = now.namespaces.len() > 1;
    let is_losing = |lost: &Lost| alarm(lost.datagrams.per_s.is_some_and(|rate| rate > 0.0));
    let port = |lost: &Lost| right(lost.port.map_or_else(|| "any".into(), |port| port.to_string()));
    let columns: [Column<'_, Lost>; 6] = [
        (true, "lost at", Constraint::Length(28), &|lost| Cell::new(lost.place.row().title).style(is_losing(lost))),
        (several, "namespace", Constraint::Length(10), &|lost| Cell::new(lost.namespace.clone())),
        (true, "port", Constraint::Length(5), &port),
        (true, "why", Constraint::Fill(2), &|lost| Cell::new(lost.why.clone())),
        (true, "/s", Constraint::Length(8), &|lost| right(rate(Some(lost.datagrams))).style(is_losing(lost))),
        (true, "total", Constraint::Length(10), &|lost| right(grouped(lost.datagrams.total))),
    ];
    let table = of_columns(&columns, lost.iter());
    if lost.is_empty() { table.rows([Row::new([Cell::new("nowhere so far".green())])]) } else { table }
}

/// Of more processors than there are rows, those that do most. What a hypervisor took is shown where there is room, or
/// where it took any: then in place of the time in interrupts.
fn processor_table(now: &Snapshot, rows: usize, wide: bool) -> Table<'static> {
    let stolen = now.processors.iter().any(|processor| processor.steal.pct.is_some_and(|pct| pct >= 0.5));
    let idle = |processor: &&Processor| processor.idle.pct.unwrap_or(100.0);
    let mut processors: Vec<&Processor> = now.processors.iter().collect();
    if processors.len() > rows {
        processors.sort_by(|one, other| idle(one).total_cmp(&idle(other)));
        processors.truncate(rows);
    }
    // Red from a share on.
    let share = |time: Time, limit: f64| {
        let text = time.pct.map_or_else(|| "-".into(), |pct| format!("{pct:.0}%"));
        right(text).style(alarm(time.pct.is_some_and(|pct| pct >= limit)))
    };
    let steal = |processor: &Processor| share(processor.steal, 5.0);
    let columns: [Column<'_, Processor>; 8] = [
        (true, "cpu", Constraint::Length(4), &|processor| right(processor.cpu.to_string())),
        (wide || !stolen, "irq", Constraint::Length(5), &|processor| share(processor.irq, f64::INFINITY)),
        (stolen && !wide, "steal", Constraint::Length(5), &steal),
        (true, "softirq", Constraint::Length(7), &|processor| share(processor.softirq, 80.0)),
        (true, "sys", Constraint::Length(5), &|processor| share(processor.system, f64::INFINITY)),
        (true, "user", Constraint::Length(5), &|processor| share(processor.user, f64::INFINITY)),
        (wide, "steal", Constraint::Length(5), &steal),
        (true, "NETRX/s", Constraint::Length(7), &|processor| right(rate(processor.net_rx))),
    ];
    let interrupts = now.interrupts.map_or_else(String::new, |count| format!(" {} interrupts/s ", rate(Some(count))));
    of_columns(&columns, processors.into_iter()).block(Block::new().borders(Borders::TOP).title(interrupts))
}

fn interface_table(now: &Snapshot) -> Table<'static> {
    let several = now.namespaces.len() > 1;
    let name = |interface: &Interface| {
        let name = &interface.name;
        Cell::new(if several { format!("{name} {}", now.name_of(interface.namespace)) } else { name.clone() })
    };
    let drops = |count: Count| {
        let lost = count.per_s.is_some_and(|rate| rate > 0.0);
        right(format!("{} ({})", rate(Some(count)), grouped(count.total))).style(alarm(lost))
    };
    let columns: [Column<'_, Interface>; 4] = [
        (true, "interface", Constraint::Fill(1), &name),
        (true, "in/s", Constraint::Length(9), &|interface| right(rate(Some(interface.received)))),
        (true, "lost in/s (n)", Constraint::Length(13), &|interface| drops(interface.receive_drops)),
        (true, "out/s (n)", Constraint::Length(11), &|interface| drops(interface.send_drops)),
    ];
    of_columns(&columns, now.interfaces.iter())
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
