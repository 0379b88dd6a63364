//! The picture of two ledgers: pure, so that a test can look at it.

use std::fmt::Write;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};
use weir_service::losses::grouped;
use weir_service::screen::cells::{self, alarm, bit_rate, clock, level, number, right, shorten};

use super::rates::{Rates, bits};
use weir_forward::ledger::{DestinationCount, Ledger, ListenerCount, RuleCount};

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
    let look = Look::new(frame.area().width);
    frame.render_widget(listener_table(&rates, now, &look), listeners);
    frame.render_widget(destination_table(&rates, now, &look), destinations);
    frame.render_widget(rule_table(&rates, now, &look), rules);
    frame.render_widget(cells::notes(notes), log);
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

/// In one line, or two where one is too short.
fn summary<'a>(rates: &Rates<'_>, now: &Ledger) -> Paragraph<'a> {
    let (received, sent, dropped) = (rates.received(), rates.sent(), rates.dropped() + rates.kernel_drops());
    let drops = format!("dropped {}/s", number(dropped));
    let ledger = if now.closed { "ledger closes".green() } else { "LEDGER DOES NOT CLOSE".red().bold() };
    let line = Line::from(vec![
        "weir tee ".bold(),
        format!("up {}   ", clock(now.elapsed_s)).into(),
        format!("in {}/s {}   ", number(received.datagrams), bit_rate(received.bits)).into(),
        format!("out {}/s {}   ", number(sent.datagrams), bit_rate(sent.bits)).into(),
        if dropped > 0.0 { drops.red() } else { drops.into() },
        "   ".into(),
        ledger,
    ]);
    Paragraph::new(line).wrap(Wrap { trim: true })
}

/// What a screen has room for: a narrow one leaves it to names and addresses.
struct Look {
    width: u16,
    narrow: bool,
}

impl Look {
    fn new(width: u16) -> Self {
        Self { width, narrow: width < WIDE }
    }

    fn bar(&self) -> u16 {
        if self.narrow { 0 } else { BAR }
    }

    fn spacing(&self) -> u16 {
        if self.narrow { 1 } else { 2 }
    }

    fn shows(&self, title: &str) -> bool {
        !(self.narrow && title == "payload")
    }

    /// What columns of these titles and widths leave of it.
    fn left(&self, columns: &[(&str, u16)]) -> u16 {
        let shown = columns.iter().filter(|(title, _)| self.shows(title));
        let taken: u16 = shown.map(|(_, width)| width + self.spacing()).sum();
        (self.width + self.spacing()).saturating_sub(taken)
    }

    fn table<'a, const COLUMNS: usize>(
        &self,
        columns: [(&'static str, u16); COLUMNS],
        rows: impl Iterator<Item = [Cell<'a>; COLUMNS]>,
    ) -> Table<'a> {
        let titles = columns.map(|(title, _)| title);
        let shown: Vec<_> = columns.into_iter().filter(|(title, _)| self.shows(title)).collect();
        let (head, widths): (Vec<_>, Vec<_>) =
            shown.into_iter().map(|(title, width)| (title, Constraint::Length(width))).unzip();
        let rows = rows.map(|row| {
            Row::new(titles.into_iter().zip(row).filter(|(title, _)| self.shows(title)).map(|(_, cell)| cell))
        });
        cells::table(&head, |title| title.contains("/s") || title == "payload", rows, &widths)
            .column_spacing(self.spacing())
    }
}

fn listener_table<'a>(rates: &Rates<'_>, now: &Ledger, look: &Look) -> Table<'a> {
    let columns = |name| {
        [
            ("listener", name),
            ("datagrams/s", 11),
            ("payload", 11),
            ("unmatched/s", 11),
            ("kernel drops/s (n)", 18),
            ("buffer", (look.bar() + 5).max(6)),
        ]
    };
    let name = look.left(&columns(0));
    let row = |count: &ListenerCount| {
        let kernel = rates.of_listener(count, |count| count.kernel_drops.unwrap_or(0));
        let drops = match count.kernel_drops {
            Some(total) => format!("{} ({})", number(kernel), grouped(total)),
            None => "unknown".into(),
        };
        let share = count.receive_queue.map(|queue| queue as f64 / count.receive_buffer.max(1) as f64);
        [
            Cell::new(called(&count.name, &count.address, name)),
            right(number(rates.of_listener(count, |count| count.received.datagrams))),
            right(bit_rate(rates.of_listener(count, |count| bits(count.received)))),
            right(number(rates.of_listener(count, |count| count.unmatched))),
            right(drops).style(alarm(kernel > 0.0)),
            level(share, look.bar()),
        ]
    };
    look.table(columns(name), now.listeners.iter().map(row))
}

fn destination_table<'a>(rates: &Rates<'_>, now: &Ledger, look: &Look) -> Table<'a> {
    let columns = |name, dropped| {
        [
            ("destination", name),
            ("state", 10),
            ("sent/s", 11),
            ("payload", 11),
            ("dropped", dropped),
            ("queue", look.bar() + 5),
        ]
    };
    let left = look.left(&columns(0, 0));
    let reasons_of = |count| reasons(rates, count).chars().count() as u16;
    let longest = now.destinations.iter().map(reasons_of).max().unwrap_or(0).max("dropped".len() as u16);
    // On a narrow screen names take what reasons leave.
    let name = if look.narrow { left.saturating_sub(longest).max(left / 2) } else { left / 2 };
    let row = |count: &DestinationCount| {
        let address = count.address.0.map_or_else(|| "unresolved".into(), |address| address.to_string());
        let state = match (count.address.0, count.healthy) {
            (None, _) => "unresolved".yellow(),
            (_, None) => "removed".dark_gray(),
            (_, Some(true)) => "lives".green(),
            (_, Some(false)) => "down".red().bold(),
        };
        let reasons = reasons(rates, count);
        let share = count.queue_limit.map(|limit| count.queued_bytes as f64 / limit.max(1) as f64);
        [
            Cell::new(called(&count.name, &address, name)),
            Cell::new(state),
            right(number(rates.of_destination(count, |count| count.sent.datagrams))),
            right(bit_rate(rates.of_destination(count, |count| bits(count.sent)))),
            Cell::new(reasons.clone()).style(alarm(!reasons.is_empty())),
            level(share, look.bar()),
        ]
    };
    look.table(columns(name, left - name), now.destinations.iter().map(row))
}

fn rule_table<'a>(rates: &Rates<'_>, now: &Ledger, look: &Look) -> Table<'a> {
    let columns = |name| [("rule", name), ("matched/s", 11), ("payload", 11), ("discarded/s", 11), ("copies/s", 11)];
    let name = look.left(&columns(0));
    let row = |count: &RuleCount| {
        [
            Cell::new(shorten(&count.name, name.into())),
            right(number(rates.of_rule(count, |count| count.matched.datagrams))),
            right(bit_rate(rates.of_rule(count, |count| bits(count.matched)))),
            right(number(rates.of_rule(count, |count| count.discarded))),
            right(number(rates.of_rule(count, |count| count.copies))),
        ]
    };
    look.table(columns(name), now.rules.iter().map(row))
}

/// A thing without a name in the file is called by its address: once is enough. What does not fit is the middle of the
/// address, if there is room for its ends.
fn called(name: &str, address: &str, columns: u16) -> String {
    let columns = usize::from(columns);
    if name == address || address == "unresolved" {
        return shorten(name, columns);
    }
    let left = columns.saturating_sub(name.chars().count() + 1);
    if left < LEAST_ADDRESS {
        return shorten(&format!("{name} {address}"), columns);
    }
    format!("{name} {}", shorten(address, left))
}

fn reasons(rates: &Rates<'_>, count: &DestinationCount) -> String {
    let words = rates.reasons(count).into_iter().map(|(reason, rate)| format!("{reason} {}/s", number(rate)));
    words.collect::<Vec<_>>().join(", ")
}

const BAR: u16 = 10;

/// Columns of a screen that has room for everything, as long as names are short.
const WIDE: u16 = 110;

/// Columns of an address in which one can still be told from another.
const LEAST_ADDRESS: usize = 12;

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
    fn on_80_columns_an_address_loses_its_middle() {
        let long: SocketAddr = "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535".parse().unwrap();
        let [before, now] = [58, 60].map(|seconds| {
            let mut ledger = fixture::at(seconds);
            ledger.listeners[1].address = long.to_string();
            ledger.destinations[0].address.0 = Some(long);
            ledger
        });
        insta::assert_snapshot!(picture(80, 18, &before, &now, &[]));
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
