//! A small SVG writer: system fonts, tooltips, and colours by class that follow the light or dark theme.

use std::fmt::Write;

/// A line is drawn in the `color` of its series (s0 to s6, or its own), so that one rule per series is enough. The
/// colours are those of Okabe and Ito, which are safe for any colour vision; on dark ground lighter ones.
const STYLE: &str = "\
.card{fill:#fff;stroke:#d1d9e0}.ink{fill:#1f2328}.faint{fill:#59636e}.bold{font-weight:600}.grid{stroke:#e6eaef}\
.axis{stroke:#818b98}.still{fill:#d8dde3}.none{fill:#e9ecef}.empty{fill:none;stroke:#d1d9e0;stroke-dasharray:2 2}\
.l{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.thin{stroke-width:1.4}\
.f{fill:currentColor}.m{fill:currentColor;stroke:#fff}.b{fill:currentColor;fill-opacity:.16}\
.h{fill:#fff;stroke:currentColor;stroke-width:1.5}.d1{stroke-dasharray:6 3}.d2{stroke-dasharray:2 4}\
.s0{color:#0072b2}.s1{color:#d55e00}.s2{color:#009e73}.s3{color:#cc79a7}.s4{color:#b37c00}.s5{color:#3a9bd4}\
.s6{color:#444c56}.pale{color:#9aa2ab}\
@media screen and (prefers-color-scheme:dark){\
.card{fill:#161b22;stroke:#30363d}.ink{fill:#e6edf3}.faint{fill:#9198a1}.grid{stroke:#262c34}.axis{stroke:#57606a}\
.still{fill:#39414b}.none{fill:#2a313a}.empty{stroke:#39414b}.m{stroke:#161b22}.h{fill:#161b22}.b{fill-opacity:.24}\
.s0{color:#4ba3e3}.s1{color:#ff8a3d}.s2{color:#2fcf9f}.s3{color:#e79bc4}.s4{color:#e6b33d}.s5{color:#8ed1f5}\
.s6{color:#c9d1d9}.pale{color:#6e7681}}";

/// System sans fonts, those with good digits first.
const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif";

/// An unfinished picture. Lengths are pixels at its natural size; a style is attributes, e.g. `class="faint"`.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// The anchor point of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

impl Svg {
    /// An empty card.
    pub(super) fn new(width: f64, height: f64) -> Self {
        let mut svg = Self { body: String::new(), width, height };
        svg.rect((0.5, 0.5), (width - 1.0, height - 1.0), "class=\"card\" rx=\"10\"", "");
        svg
    }

    /// A rectangle.
    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), style: &str, tooltip: &str) {
        let [x, y, width, height] = [x, y, width, height].map(px);
        self.element("rect", &format!(r#"x="{x}" y="{y}" width="{width}" height="{height}" {style}"#), &title(tooltip));
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(px);
        self.element("line", &format!(r#"x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {style}"#), "");
    }

    /// Straight lines through points, optionally `closed` to an area; nothing for fewer than two.
    pub(super) fn path(&mut self, points: &[(f64, f64)], closed: bool, style: &str, tooltip: &str) {
        if points.len() < 2 {
            return;
        }
        let mut d = String::new();
        for (index, &(x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{} {}", if index == 0 { "M" } else { "L" }, px(x), px(y));
        }
        let end = if closed { "Z" } else { "" };
        self.element("path", &format!(r#"d="{d}{end}" {style}"#), &title(tooltip));
    }

    /// A circle.
    pub(super) fn circle(&mut self, (x, y): (f64, f64), radius: f64, style: &str, tooltip: &str) {
        let [x, y, radius] = [x, y, radius].map(px);
        self.element("circle", &format!(r#"cx="{x}" cy="{y}" r="{radius}" {style}"#), &title(tooltip));
    }

    /// A shape at many places, as one element: `stroke` is its path from there, e.g. `h0` with round ends for a dot.
    pub(super) fn scatter(&mut self, at: &[(f64, f64)], stroke: &str, style: &str) {
        if !at.is_empty() {
            let d: String = at.iter().map(|&(x, y)| format!("M{} {}{stroke}", px(x), px(y))).collect();
            self.element("path", &format!(r#"d="{d}" {style}"#), "");
        }
    }

    /// A text.
    pub(super) fn text(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, style: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#"text-anchor="middle" "#,
            Anchor::End => r#"text-anchor="end" "#,
        };
        let [x, y, size] = [x, y, size].map(px);
        self.element("text", &format!(r#"x="{x}" y="{y}" font-size="{size}" {anchor}{style}"#), &escape(text));
    }

    /// Everything drawn, as a document with a name and a description for screen readers.
    pub(super) fn finish(self, name: &str, description: &str) -> String {
        let ([width, height], body) = ([self.width, self.height].map(px), self.body);
        let (title, description) = (title(name), escape(description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" font-family=\"{FONTS}\">\n<style>{STYLE}</style>\n{title}\n\
             <desc>{description}</desc>\n{body}</svg>\n"
        )
    }

    fn element(&mut self, name: &str, attributes: &str, content: &str) {
        let end = if content.is_empty() { "/>\n".to_owned() } else { format!(">{content}</{name}>\n") };
        let _ = write!(self.body, "<{name} {attributes}{end}");
    }
}

/// Approximate width of a text in a sans font of this size.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.53
}

/// Escaped for XML 1.0, without the characters that it does not allow in any form (section 2.2).
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\t' | '\n' | '\r' => escaped += &format!("&#{};", u32::from(c)),
            ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => escaped.push(c),
            _ => escaped.push(char::REPLACEMENT_CHARACTER),
        }
    }
    escaped
}

fn title(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<title>{}</title>", escape(text)) }
}

/// A length with at most one decimal; values that are not finite become 0, so that no input can break the document.
fn px(length: f64) -> String {
    if !length.is_finite() {
        return "0".into();
    }
    let text = format!("{:.1}", length.clamp(-1e5, 1e5));
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.to_owned() }
}
