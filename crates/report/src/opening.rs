//! The page's path, and how to open it from the reader's machine.

use std::path::{Path, absolute};

/// The reader's place, from the environment.
#[derive(Clone, Debug, Default)]
pub struct Seat {
    /// Whether a browser can show a window (`DISPLAY`, `WAYLAND_DISPLAY`).
    display: bool,
    /// Login over ssh: user, address, port (`SSH_CONNECTION`, see ssh(1)).
    ssh: Option<(String, String, String)>,
}

impl Seat {
    /// From these environment variables.
    pub fn new(variable: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name| variable(name).filter(|value| !value.is_empty());
        let connection = given("SSH_CONNECTION").unwrap_or_default();
        let ssh = match connection.split_whitespace().collect::<Vec<_>>()[..] {
            [_, _, address, port] => given("USER").map(|user| (user, address.to_owned(), port.to_owned())),
            _ => None,
        };
        Self { display: given("DISPLAY").or_else(|| given("WAYLAND_DISPLAY")).is_some(), ssh }
    }

    /// Names the page for a terminal, and files that were not written; otherwise (`terminal` is false) only the path,
    /// for scripts.
    pub fn line(&self, page: &Path, terminal: bool) -> String {
        let path = page.display().to_string();
        if !terminal {
            return path;
        }
        let how = match &self.ssh {
            // Even with X11 forwarding, the reader's own browser is faster.
            Some((user, address, port)) => {
                let port = if port == "22" { String::new() } else { format!("-P {port} ") };
                let address = if address.contains(':') { format!("[{address}]") } else { address.clone() };
                let whole = absolute(page).unwrap_or_else(|_| page.into()).display().to_string();
                format!("one file; fetch it: scp {port}{} .", quoted(&format!("{user}@{address}:{whole}")))
            }
            None if self.display => format!("open it in a browser: xdg-open {}", quoted(&path)),
            None => "copy it to a machine with a browser".to_owned(),
        };
        let without = "\nsummary.xlsx: not written (built without the feature `spreadsheet`)";
        let without = if cfg!(feature = "spreadsheet") { "" } else { without };
        format!("report: {path} ({how}){without}")
    }
}

/// Quoted as one word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(variables: &[(&str, &str)], page: &str) -> String {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let line = Seat::new(find).line(Path::new(page), true);
        line.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_line_is_for_where_the_reader_sits() {
        let page = "/r/a b/report.html";
        assert_eq!(
            line(&[("WAYLAND_DISPLAY", "wayland-0")], page),
            "report: /r/a b/report.html (open it in a browser: xdg-open '/r/a b/report.html')"
        );
        let ssh = [("SSH_CONNECTION", "192.0.2.1 50000 2001:db8::2 2222"), ("USER", "ann"), ("DISPLAY", ":10")];
        assert_eq!(
            line(&ssh, "/r/report.html"),
            "report: /r/report.html (one file; fetch it: scp -P 2222 'ann@[2001:db8::2]:/r/report.html' .)"
        );
        assert!(line(&[("DISPLAY", "")], page).contains("copy it to a machine with a browser"));
        assert_eq!(Seat::default().line(Path::new(page), false), page, "scripts read the path alone");
    }

    #[test]
    fn quotes_end_nothing() {
        assert_eq!(quoted("/it's"), r"'/it'\''s'");
    }
}
