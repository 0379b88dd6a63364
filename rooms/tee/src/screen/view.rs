//! The picture of two ledgers: pure, so that a test can look at it.

use std::fmt::Write;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};
use weir_service::losses::grouped;
use weir_service::screen::cells::{self, alarm, bit_rate, clock, level, number, right, shorten};

use super::rates::{Rates, bits};
use crate::ledger::{DestinationCount, Ledger, ListenerCount};

/// Draws what changed from `before` to `now`, and the last lines of the log.
pub(super) fn draw(frame: &mut Frame<'_>, before: &Ledger, now: &Ledger, notes: &[String]) {
    let rates = Rates::new(before, now);
    // A border above, a head, and a row each.
    let height = |rows: usize| Constraint::Max(rows as u16 + 2);
    let note_height = if notes.is_empty() { 0 } else { notes.len() as u16 + 1 };
    let [title, listeners, destinations, rules, log, _, keys] = Layout::vertical([
        Constraint::Length(2),
        height(now.listeners.len()),
        height(now.destinations.len()),
        height(now.rules.len()),
        Constraint::Length(note_height),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(summary(&rates, now), title);
    let width = frame.area().width;
    frame.render_widget(listener_table(&rates, now, width), listeners);
    frame.render_widget(destination_table(&rates, now, width), destinations);
    frame.render_widget(rule_table(&rates, now), rules);
    draw_notes(frame, notes, log);
    frame.render_widget("q, Ctrl-C: end the tee".dim(), keys);
}

/// The same in one line, where there is no screen.
pub(super) fn line(before: &Ledger, now: &Ledger) -> String {
    let rates = Rates::new(before, now);
    let (received, sent) = (rates.received(), rates.sent());
    let mut line = format!(
        "{} in {}/s {}, out {}/s {}, dropped {}/s, by the kernel {}/s",
        clock(now.elapsed_s),
        number(received.datagrams),
        bit_rate(received.bits),
        number(sent.datagrams),
        bit_rate(sent.bits),
        number(rates.dropped()),
        number(rates.kernel_drops()),
    );
    for destination in &now.destinations {
        let reasons = reasons(&rates, destination);
        if !reasons.is_empty() {
            let _ = write!(line, "; {}: {reasons}", destination.name);
        }
    }
    if !now.closed {
        line.push_str("; the ledger does not close");
    }
    line
}

fn summary<'a>(rates: &Rates<'_>, now: &Ledger) -> Text<'a> {
    let (received, sent, dropped) = (rates.received(), rates.sent(), rates.dropped() + rates.kernel_drops());
    let drops = format!("dropped {}/s", number(dropped));
    let ledger = if now.closed { "ledger closes".green() } else { "LEDGER DOES NOT CLOSE".red().bold() };
    Text::from(Line::from(vec![
        "weir tee ".bold(),
        format!("up {}   ", clock(now.elapsed_s)).into(),
        format!("in {}/s {}   ", number(received.datagrams), bit_rate(received.bits)).into(),
        format!("out {}/s {}   ", number(sent.datagrams), bit_rate(sent.bits)).into(),
        if dropped > 0.0 { drops.red() } else { drops.into() },
        "   ".into(),
        ledger,
    ]))
}

fn listener_table<'a>(rates: &Rates<'_>, now: &Ledger, width: u16) -> Table<'a> {
    let (bar, spacing) = room(width);
    let fixed = [11, 11, 11, 18, bar + "buffer".len() as u16];
    let name = width.saturating_sub(fixed.iter().map(|column| column + spacing).sum());
    let row = |count: &ListenerCount| {
        let kernel = rates.of_listener(count, |count| count.kernel_drops.unwrap_or(0));
        let drops = match count.kernel_drops {
            Some(total) => format!("{} ({})", number(kernel), grouped(total)),
            None => "unknown".into(),
        };
        let share = count.receive_queue.map(|queue| queue as f64 / count.receive_buffer.max(1) as f64);
        Row::new([
            Cell::new(shorten(&called(&count.name, &count.address), name.into())),
            right(number(rates.of_listener(count, |count| count.received.datagrams))),
            right(bit_rate(rates.of_listener(count, |count| bits(count.received)))),
            right(number(rates.of_listener(count, |count| count.unmatched))),
            right(drops).style(alarm(kernel > 0.0)),
            level(share, bar),
        ])
    };
    let [datagrams, payload, unmatched, drops, buffer] = fixed.map(Constraint::Length);
    let head = ["listener", "datagrams/s", "payload", "unmatched/s", "kernel drops/s (n)", "buffer"];
    let widths = [Constraint::Fill(1), datagrams, payload, unmatched, drops, buffer];
    table(head, now.listeners.iter().map(row), widths, spacing)
}

fn destination_table<'a>(rates: &Rates<'_>, now: &Ledger, width: u16) -> Table<'a> {
    let (bar, spacing) = room(width);
    let fixed = [10, 11, 11, bar + "queue".len() as u16];
    let left = width.saturating_sub(fixed.iter().map(|column| column + spacing).sum::<u16>() + spacing);
    let longest = |texts: &mut dyn Iterator<Item = String>| texts.map(|text| text.chars().count() as u16).max();
    let named = longest(&mut now.destinations.iter().map(address)).unwrap_or(0);
    let dropped = longest(&mut now.destinations.iter().map(|count| reasons(rates, count))).unwrap_or(0);
    // Half each, unless reasons leave room for longer names.
    let name = named.min(left.saturating_sub(dropped.max("dropped".len() as u16))).max(left / 2);
    let row = |count: &DestinationCount| {
        let state = match (count.address, count.healthy) {
            (None, _) => "unresolved".yellow(),
            (_, true) => "lives".green(),
            (_, false) => "down".red().bold(),
        };
        let reasons = reasons(rates, count);
        let share = count.queue_limit.map(|limit| count.queued_bytes as f64 / limit.max(1) as f64);
        Row::new([
            Cell::new(shorten(&address(count), name.into())),
            Cell::new(state),
            right(number(rates.of_destination(count, |count| count.sent.datagrams))),
            right(bit_rate(rates.of_destination(count, |count| bits(count.sent)))),
            Cell::new(reasons.clone()).style(alarm(!reasons.is_empty())),
            level(share, bar),
        ])
    };
    let [state, sent, payload, queue] = fixed.map(Constraint::Length);
    let head = ["destination", "state", "sent/s", "payload", "dropped", "queue"];
    let widths = [Constraint::Length(name), state, sent, payload, Constraint::Fill(1), queue];
    table(head, now.destinations.iter().map(row), widths, spacing)
}

fn rule_table<'a>(rates: &Rates<'_>, now: &Ledger) -> Table<'a> {
    let rows = now.rules.iter().map(|count| {
        Row::new([
            Cell::new(count.name.clone()),
            right(number(rates.of_rule(count, |count| count.matched.datagrams))),
            right(bit_rate(rates.of_rule(count, |count| bits(count.matched)))),
            right(number(rates.of_rule(count, |count| count.discarded))),
            right(number(rates.of_rule(count, |count| count.copies))),
        ])
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(11),
    ];
    table(["rule", "matched/s", "payload", "discarded/s", "copies/s"], rows, widths, SPACING)
}

fn draw_notes(frame: &mut Frame<'_>, notes: &[String], area: Rect) {
    let lines: Vec<Line<'_>> = notes.iter().map(|note| Line::raw(note.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::new().borders(Borders::TOP)), area);
}

fn table<'a, const COLUMNS: usize>(
    head: [&'static str; COLUMNS],
    rows: impl Iterator<Item = Row<'a>>,
    widths: [Constraint; COLUMNS],
    spacing: u16,
) -> Table<'a> {
    cells::table(&head, |title| title.contains("/s") || title == "payload", rows, &widths).column_spacing(spacing)
}

/// How long bars are, and how far columns stand apart: names and addresses need the room of a narrow screen.
fn room(width: u16) -> (u16, u16) {
    if width < WIDE { (0, 1) } else { (BAR, SPACING) }
}

fn address(count: &DestinationCount) -> String {
    let address = count.address.map_or_else(|| "unresolved".into(), |address| address.to_string());
    called(&count.name, &address)
}

/// A thing without a name in the file is called by its address: once is enough.
fn called(name: &str, address: &str) -> String {
    if name == address || address == "unresolved" { name.to_owned() } else { format!("{name} {address}") }
}

fn reasons(rates: &Rates<'_>, count: &DestinationCount) -> String {
    let words = rates.reasons(count).into_iter().map(|(reason, rate)| format!("{reason} {}/s", number(rate)));
    words.collect::<Vec<_>>().join(", ")
}

const BAR: u16 = 10;
const SPACING: u16 = 2;

/// Columns of a screen on which nothing need be shortened, usually.
const WIDE: u16 = 110;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use weir_service::screen::MOST_NOTES;

    use super::super::super::fixture;
    use super::*;

    fn picture(width: u16, height: u16, before: &Ledger, now: &Ledger, notes: &[&str]) -> String {
        let notes: Vec<String> = notes.iter().map(|&note| note.to_owned()).collect();
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, before, now, &notes)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_busy_tee_at_a_glance() {
        let notes = ["2026-07-01T12:00:00Z  WARN destination siem 10.0.0.5:514: 10,000 datagrams dropped"];
        insta::assert_snapshot!(picture(120, 22, &fixture::at(58), &fixture::at(60), &notes));
    }

    #[test]
    fn on_80_columns_addresses_lose_their_middle_alone() {
        let long: SocketAddr = "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535".parse().unwrap();
        let mut now = fixture::at(60);
        now.listeners[1].address = long.to_string();
        now.destinations[0].address = Some(long);
        insta::assert_snapshot!(picture(80, 18, &fixture::at(58), &now, &[]));
    }

    #[test]
    fn small_terminals_and_empty_ledgers_do_no_harm() {
        let empty = Ledger { closed: true, ..Ledger::default() };
        for (width, height) in [(1, 1), (20, 4), (80, 24), (300, 100)] {
            picture(width, height, &empty, &fixture::busy(), &["note"; MOST_NOTES]);
            picture(width, height, &fixture::busy(), &empty, &[]);
        }
    }

    #[test]
    fn a_line_says_the_same() {
        assert_eq!(
            line(&fixture::at(55), &fixture::at(60)),
            "0:01:00 in 10,000/s 40.0 Mbit/s, out 19,000/s 76.0 Mbit/s, dropped 1,000/s, by the kernel 7.0/s; \
             siem: queue_full 1,000/s"
        );
        // The first moment has no rates.
        let now = Ledger { closed: false, ..fixture::busy() };
        assert!(line(&now, &now).starts_with("0:01:00 in 0/s 0 kbit/s, "));
        assert!(line(&now, &now).ends_with("; the ledger does not close"));
    }
}
