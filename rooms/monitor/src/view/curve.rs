//! A curve in braille: two columns and four rows of dots a cell. Where samples are missing the ground is shaded, and no line leads across.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use super::trace::Column;

/// A curve, up to the newest of all columns.
pub(super) struct Curve<'a> {
    pub(super) columns: &'a [Column],
    /// The column at the right end.
    pub(super) newest: i64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) colour: Color,
}

impl Curve<'_> {
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let (dots_x, dots_y) = (i64::from(area.width) * 2, i64::from(area.height) * 4);
        if dots_x == 0 || dots_y == 0 {
            return;
        }
        let begin = self.newest - dots_x + 1;
        let mut dots = vec![0_u8; usize::from(area.width) * usize::from(area.height)];
        let mut shaded = vec![false; usize::from(area.width)];
        let mut before: Option<&Column> = None;
        for column in self.columns.iter().filter(|column| (begin..=self.newest).contains(&column.number)) {
            let x = column.number - begin;
            if column.missing > 0 {
                shaded[(x / 2) as usize] = true;
            }
            if column.least.is_nan() {
                before = None;
                continue;
            }
            let (mut top, mut bottom) = (self.row(column.greatest, dots_y), self.row(column.least, dots_y));
            // A line leads on from the column before, however far it is: nothing is missing between them.
            if let Some(before) = before.filter(|before| before.missing == 0 && column.missing == 0) {
                let (from, to) = (self.row(before.last, dots_y), self.row(column.first, dots_y));
                let between = column.number - before.number;
                for step in 1..between {
                    let y = from + (to - from) * step / between;
                    dot(&mut dots, area, x - between + step, y);
                }
                if between == 1 {
                    (top, bottom) = (top.min(from), bottom.max(from));
                }
            }
            (top..=bottom).for_each(|y| dot(&mut dots, area, x, y));
            before = Some(column);
        }
        for (at, bits) in dots.into_iter().enumerate() {
            let (x, y) = (at % usize::from(area.width), at / usize::from(area.width));
            let cell = &mut buffer[(area.x + x as u16, area.y + y as u16)];
            if shaded[x] {
                cell.set_style(Style::new().bg(Color::DarkGray));
            }
            if bits > 0 {
                // U+2800 and 255 behind it are the patterns of braille.
                cell.set_char(char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' ')).set_fg(self.colour);
            } else if shaded[x] {
                cell.set_char('░').set_fg(Color::Gray);
            }
        }
    }

    /// The row of dots of a value, from the top; what is beyond the scale is at its edge.
    fn row(&self, value: f64, rows: i64) -> i64 {
        let share = (self.high - value) / (self.high - self.low);
        ((share * (rows - 1) as f64).round().clamp(0.0, (rows - 1) as f64)) as i64
    }
}

fn dot(dots: &mut [u8], area: Rect, x: i64, y: i64) {
    let at = (y / 4) as usize * usize::from(area.width) + (x / 2) as usize;
    if x >= 0
        && let Some(bits) = dots.get_mut(at)
    {
        *bits |= DOTS[(y % 4) as usize][(x % 2) as usize];
    }
}

/// Bits of a pattern: rows from the top, left and right (Unicode, Braille Patterns).
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
