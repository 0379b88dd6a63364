//! What tables on a screen are made of: numbers, rates, bars.

use ratatui::layout::Constraint;
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

use crate::losses::grouped;

/// A table below a line, its heads bold. Columns of a name in `numeric` stand right, as their numbers do.
pub fn table<'a>(
    head: &[&'static str],
    numeric: impl Fn(&str) -> bool,
    rows: impl Iterator<Item = Row<'a>>,
    widths: &[Constraint],
) -> Table<'a> {
    let titles = head.iter().map(|&title| if numeric(title) { right(title.to_owned()) } else { Cell::new(title) });
    let head = Row::new(titles).style(Style::new().add_modifier(Modifier::BOLD));
    Table::new(rows, widths).header(head).block(Block::new().borders(Borders::TOP))
}

/// Lines of the log below a line.
pub fn notes<'a>(lines: &'a [String]) -> Paragraph<'a> {
    let lines: Vec<Line<'a>> = lines.iter().map(|line| Line::raw(line.as_str())).collect();
    Paragraph::new(lines).block(Block::new().borders(Borders::TOP))
}

/// A text that stands right.
pub fn right<'a>(text: String) -> Cell<'a> {
    Cell::new(Text::from(text).right_aligned())
}

/// As much of a text as goes into so many columns: begin and end, for what tells names and addresses apart is there.
pub fn shorten(text: &str, columns: usize) -> String {
    let characters = text.chars().count();
    if characters <= columns {
        return text.to_owned();
    }
    let left = columns.saturating_sub(1);
    let (begin, end) = (left / 2, left.div_ceil(2));
    text.chars().take(begin).chain(['…']).chain(text.chars().skip(characters - end)).take(columns).collect()
}

/// Red where something is wrong.
pub fn alarm(on: bool) -> Style {
    if on { Style::new().fg(Color::Red) } else { Style::new() }
}

/// A bar of so many cells: full up to `share`, half full up to the most it has been. Both from 0 to 1.
pub fn bar<'a>(share: f64, most: f64, cells: u16) -> [Span<'a>; 3] {
    let share = share.clamp(0.0, 1.0);
    // What is not empty shows.
    let part = |share: f64| ((share * f64::from(cells)).ceil() as usize).min(cells.into());
    let full = part(share);
    let once = part(most).max(full);
    let colour = match share {
        share if share >= 0.8 => Color::Red,
        share if share >= 0.5 => Color::Yellow,
        _ => Color::Green,
    };
    let was = if most >= 1.0 { Style::new().fg(Color::Red) } else { Style::new().dim() };
    [
        Span::styled("█".repeat(full), colour),
        Span::styled("▒".repeat(once - full), was),
        "░".repeat(usize::from(cells) - once).dim(),
    ]
}

/// A bar and its share; nothing where the share is not known.
pub fn level<'a>(share: Option<f64>, cells: u16) -> Cell<'a> {
    let Some(share) = share else { return Cell::new("") };
    let share = share.clamp(0.0, 1.0);
    let mut parts = bar(share, share, cells).to_vec();
    parts.push(format!("{:>4.0}%", share * 100.0).into());
    Cell::new(Line::from(parts))
}

/// Whole from ten on; below that with a decimal, so that one in five seconds is not nothing.
pub fn number(rate: f64) -> String {
    if rate < 9.95 && rate > 0.0 { format!("{rate:.1}") } else { grouped(rate.round() as u64) }
}

/// `40.0 Mbit/s`.
pub fn bit_rate(bits: f64) -> String {
    match bits {
        bits if bits >= 999.5e6 => format!("{:.2} Gbit/s", bits / 1e9),
        bits if bits >= 999.5e3 => format!("{:.1} Mbit/s", bits / 1e6),
        bits => format!("{:.0} kbit/s", bits / 1e3),
    }
}

/// `1:02:03`.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_the_level_and_the_most_it_has_been() {
        let text = |share, most| bar(share, most, 10).map(|span| span.content.into_owned()).concat();
        assert_eq!(text(0.0, 0.0), "░░░░░░░░░░");
        assert_eq!(text(0.01, 0.42), "█▒▒▒▒░░░░░");
        assert_eq!(text(0.5, 0.2), "█████░░░░░", "the most is never below the level");
        assert_eq!(text(7.0, f64::NAN).chars().count(), 10);
        assert_eq!(text(f64::NAN, 1.0).chars().count(), 10);
    }

    #[test]
    fn what_is_too_long_loses_its_middle() {
        let address = "[2001:db8:1234:5678:9abc:def0:1234:5678]:514";
        assert_eq!(shorten(address, 44), address);
        assert_eq!(shorten(address, 43), "[2001:db8:1234:5678:9…c:def0:1234:5678]:514");
        assert_eq!(shorten(address, 10), "[200…]:514");
        assert_eq!([0, 1, 2, 3].map(|columns| shorten("äöüß", columns)), ["", "…", "…ß", "ä…ß"]);
    }

    #[test]
    fn rates_have_three_figures_or_so() {
        assert_eq!([0.0, 0.2, 9.94, 9.96, 12_345.6].map(number), ["0", "0.2", "9.9", "10", "12,346"]);
        assert_eq!(
            [0.0, 999_499.0, 999_500.0, 1e9].map(bit_rate),
            ["0 kbit/s", "999 kbit/s", "1.0 Mbit/s", "1.00 Gbit/s"]
        );
        assert_eq!(clock(3723.9), "1:02:03");
    }
}
