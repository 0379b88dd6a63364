//! A small SVG writer.
//!
//! A charting library draws lines as well; this has what one would miss in a report: system fonts, a rounded white
//! ground that reads the same on a dark page, names and tooltips for those who cannot see or want to know, and text
//! that is placed by its anchor instead of by a guessed width.

use std::fmt::Write;

/// System sans fonts, those with good figures first.
const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif";

/// A picture in the making. Lengths are pixels at its natural size.
#[derive(Debug)]
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Where a text's given point lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// At its left end.
    Start,
    /// In its middle.
    Middle,
    /// At its right end.
    End,
}

impl Svg {
    /// An empty picture.
    pub fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    /// A rectangle with rounded corners; `style` is any further attributes, as with all below.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), radius: f64, style: &str) {
        let [x, y, width, height, radius] = [x, y, width, height, radius].map(px);
        self.line_of(&format!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}" {style}/>"#));
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(px);
        self.line_of(&format!(r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {style}/>"#));
    }

    /// Straight lines through points, `closed` to an area or not; nothing for fewer than two.
    pub fn path(&mut self, points: &[(f64, f64)], closed: bool, style: &str) {
        if points.len() < 2 {
            return;
        }
        let mut d = String::new();
        for (index, &(x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{} {}", if index == 0 { "M" } else { "L" }, px(x), px(y));
        }
        let end = if closed { "Z" } else { "" };
        self.line_of(&format!(r#"<path d="{d}{end}" {style}/>"#));
    }

    /// A circle with a tooltip.
    pub fn circle(&mut self, (x, y): (f64, f64), radius: f64, style: &str, tooltip: &str) {
        let [x, y, radius] = [x, y, radius].map(px);
        self.line_of(&format!(r#"<circle cx="{x}" cy="{y}" r="{radius}" {style}>{}</circle>"#, title(tooltip)));
    }

    /// A rectangle with a tooltip.
    pub fn field(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), style: &str, tooltip: &str) {
        let [x, y, width, height] = [x, y, width, height].map(px);
        let title = title(tooltip);
        self.line_of(&format!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" {style}>{title}</rect>"#));
    }

    /// Rectangles of one size, as one element.
    pub fn fields(&mut self, at: &[(f64, f64)], (width, height): (f64, f64), style: &str) {
        if at.is_empty() {
            return;
        }
        let (width, height) = (px(width), px(height));
        let d: String = at.iter().map(|&(x, y)| format!("M{} {}h{width}v{height}h-{width}z", px(x), px(y))).collect();
        self.line_of(&format!(r#"<path d="{d}" {style}/>"#));
    }

    /// Round dots of one size, as one element; `style` gives their `stroke`.
    pub fn dots(&mut self, at: &[(f64, f64)], size: f64, style: &str) {
        if at.is_empty() {
            return;
        }
        let d: String = at.iter().map(|&(x, y)| format!("M{} {}h0", px(x), px(y))).collect();
        let size = px(size);
        self.line_of(&format!(r#"<path d="{d}" stroke-width="{size}" stroke-linecap="round" {style}/>"#));
    }

    /// Straight lines as one element: from where to where.
    pub fn segments(&mut self, lines: &[[(f64, f64); 2]], style: &str) {
        if lines.is_empty() {
            return;
        }
        let line = |&[from, to]: &[(f64, f64); 2]| format!("M{} {}L{} {}", px(from.0), px(from.1), px(to.0), px(to.1));
        let d: String = lines.iter().map(line).collect();
        self.line_of(&format!(r#"<path d="{d}" {style}/>"#));
    }

    /// Upright lines as one element: x, and from where to where.
    pub fn strokes(&mut self, lines: &[(f64, f64, f64)], style: &str) {
        if lines.is_empty() {
            return;
        }
        let d: String = lines.iter().map(|&(x, low, high)| format!("M{} {}V{}", px(x), px(low), px(high))).collect();
        self.line_of(&format!(r#"<path d="{d}" {style}/>"#));
    }

    /// A square on its corner, with a tooltip.
    pub fn diamond(&mut self, (x, y): (f64, f64), radius: f64, style: &str, tooltip: &str) {
        let [left, right, top, bottom] = [x - radius, x + radius, y - radius, y + radius].map(px);
        let [x, y] = [x, y].map(px);
        let d = format!("M{x} {top}L{right} {y}L{x} {bottom}L{left} {y}Z");
        self.line_of(&format!(r#"<path d="{d}" {style}>{}</path>"#, title(tooltip)));
    }

    /// A text.
    pub fn text(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, style: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let [x, y, size] = [x, y, size].map(px);
        let text = escape(text);
        self.line_of(&format!(
            r#"<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" {style}>{text}</text>"#
        ));
    }

    /// Everything drawn, as a document with a name and a description for screen readers.
    pub fn finish(self, name: &str, description: &str) -> String {
        let [width, height] = [self.width, self.height].map(px);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" font-family=\"{FONTS}\">\n{}<desc>{}</desc>\n{}</svg>\n",
            title(name) + "\n",
            escape(description),
            self.body
        )
    }

    fn line_of(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }
}

/// Roughly how wide a text is in a sans font of this size.
pub fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.53
}

/// Text as XML wants it; characters that XML does not know are left out.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' | '\r' => safe.push(' '),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => {}
            c => safe.push(c),
        }
    }
    safe
}

fn title(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<title>{}</title>", escape(text)) }
}

/// A length with one decimal at most; what is not finite is 0, so that no input can spoil the document.
fn px(length: f64) -> String {
    if !length.is_finite() {
        return "0".into();
    }
    let text = format!("{:.1}", length.clamp(-1e5, 1e5));
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.to_owned() }
}
