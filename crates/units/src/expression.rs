//! Expressions over named values: `sqrt({coil/I1}^2 + {coil/I2}^2)`, `100 * link.access.frames / run.duration_s`.
//!
//! A name is a word, words with dots, or any text in braces. Operators bind as in [`WORDS`], equal ones from the left;
//! signs and functions bind tighter than all of them, and a function of one value needs no parentheses: `-2^2` is 4.
//!
//! ```
//! use weir_units::expression::Expression;
//!
//! let sum = Expression::parse("{coil/I1} + 2 * run.offset", |_| Ok(()))?;
//! assert_eq!(sum.names(), ["coil/I1", "run.offset"]);
//! assert_eq!(sum.evaluate(&[1.0, 3.0], &mut Vec::new()), 7.0);
//! # Ok::<(), weir_units::expression::ExpressionError>(())
//! ```

use std::f64::consts::{E, PI, TAU};
use std::mem;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A parsed expression, as the steps of a stack machine: each operator follows its operands.
#[derive(Clone, Debug)]
pub struct Expression {
    names: Vec<String>,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Number(f64),
    /// The value of the name with this index.
    Value(usize),
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
}

/// The meaning of a word or a sign.
#[derive(Clone, Copy)]
enum Word {
    Constant(f64),
    One(fn(f64) -> f64),
    /// How tightly it binds between two values. Those made of letters may also precede both, in parentheses.
    Two(u8, fn(f64, f64) -> f64),
}

/// The error of an expression, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionError {
    /// Byte of the text, at most its length.
    pub at: usize,
    /// One line.
    pub message: String,
}

impl Expression {
    /// Parses an expression; `check` returns the error of a name.
    ///
    /// # Errors
    /// The first error.
    pub fn parse(text: &str, check: impl Fn(&str) -> Result<(), String>) -> Result<Self, ExpressionError> {
        let mut parser = Parser { text, at: 0, check, read: Self { names: Vec::new(), steps: Vec::new() } };
        parser.infix(0, 0)?;
        match parser.token() {
            "" => Ok(parser.read),
            ")" => parser.fail(parser.at, "`)` without `(`"),
            _ => parser.fail(parser.at, "an operator is missing, one of + - * / ^ min max atan2"),
        }
    }

    /// Its names, each once, in the order of their first use.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Its value, given those of [`names`](Self::names) in order; `stack` can be reused to avoid allocation.
    ///
    /// # Panics
    /// There are fewer values than names.
    #[inline]
    pub fn evaluate(&self, values: &[f64], stack: &mut Vec<f64>) -> f64 {
        stack.clear();
        let mut top = f64::NAN;
        for step in &self.steps {
            match *step {
                Step::Number(number) => stack.push(mem::replace(&mut top, number)),
                Step::Value(index) => stack.push(mem::replace(&mut top, values[index])),
                Step::One(apply) => top = apply(top),
                Step::Two(apply) => top = apply(stack.pop().unwrap_or(f64::NAN), top),
            }
        }
        top
    }

    /// Adds a step; a step on constants becomes a constant.
    fn push(&mut self, step: Step) {
        let (number, operands) = match (step, &self.steps[..]) {
            (Step::One(apply), [.., Step::Number(only)]) => (apply(*only), 1),
            (Step::Two(apply), [.., Step::Number(left), Step::Number(right)]) => (apply(*left, *right), 2),
            _ => return self.steps.push(step),
        };
        self.steps.truncate(self.steps.len() - operands);
        self.steps.push(Step::Number(number));
    }
}

struct Parser<'a, C> {
    text: &'a str,
    at: usize,
    check: C,
    read: Expression,
}

impl<'a, C: Fn(&str) -> Result<(), String>> Parser<'a, C> {
    /// Values, and operators between them that bind at least this tightly.
    fn infix(&mut self, least: u8, depth: usize) -> Result<(), ExpressionError> {
        self.value(depth)?;
        loop {
            let token = self.token();
            match word(token) {
                Some(Word::Two(binding, apply)) if binding >= least => {
                    self.at += token.len();
                    self.infix(binding + 1, depth)?;
                    self.read.push(Step::Two(apply));
                }
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), ExpressionError> {
        let (token, start) = (self.token(), self.at);
        if depth > MAX_DEPTH {
            return self.fail(start, format!("more than {MAX_DEPTH} nested parentheses, signs and functions"));
        }
        self.at += token.len();
        let step = match (word(token), token.chars().next()) {
            (Some(Word::Constant(number)), _) => Step::Number(number),
            (Some(Word::One(apply)), _) => {
                self.value(depth + 1)?;
                Step::One(apply)
            }
            (Some(Word::Two(_, apply)), Some('a'..='z')) if self.token() == "(" => {
                self.at += 1;
                self.infix(0, depth + 1)?;
                self.expect(",", start)?;
                self.infix(0, depth + 1)?;
                self.expect(")", start)?;
                Step::Two(apply)
            }
            (_, Some('+')) => return self.value(depth + 1),
            (_, Some('-')) => {
                self.value(depth + 1)?;
                Step::One(f64::neg)
            }
            (_, Some('(')) => {
                self.infix(0, depth + 1)?;
                return self.expect(")", start);
            }
            (_, Some('{')) => {
                let Some((name, _)) = self.text[self.at..].split_once('}') else {
                    return self.fail(start, "the brace is not closed");
                };
                self.at += name.len() + 1;
                self.name(name, start)?
            }
            (_, Some('.' | '0'..='9')) => self.number(start)?,
            (None, Some(c)) if is_first(c) && self.token() == "(" => {
                return self.fail(start, format!("no function `{token}`"));
            }
            (None, Some(c)) if is_first(c) => self.name(token, start)?,
            (_, Some(_)) => return self.fail(start, format!("a value is expected, not `{}`", token.escape_debug())),
            (_, None) => return self.fail(start, "a value is missing at the end"),
        };
        self.read.push(step);
        Ok(())
    }

    fn name(&mut self, name: &str, start: usize) -> Result<Step, ExpressionError> {
        (self.check)(name).or_else(|message| self.fail(start, message))?;
        let names = &mut self.read.names;
        Ok(Step::Value(names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        })))
    }

    /// Digits with at most one point, and optionally a power of ten: `1.5e-3`.
    fn number(&mut self, start: usize) -> Result<Step, ExpressionError> {
        let after = |text: &'a str| text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let rest = &self.text[start..];
        let mut behind = after(rest);
        if let Some(power) = behind.strip_prefix(['e', 'E']) {
            let power = power.strip_prefix(['+', '-']).unwrap_or(power);
            behind = if power.starts_with(|c: char| c.is_ascii_digit()) { after(power) } else { behind };
        }
        let number = &rest[..rest.len() - behind.len()];
        self.at = start + number.len();
        match number.parse() {
            Ok(number) => Ok(Step::Number(number)),
            Err(_) => self.fail(start, format!("`{number}` is not a number")),
        }
    }

    /// The next token without spaces: a word, a character, or nothing at the end.
    fn token(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        let length = match rest.chars().next() {
            Some(c) if is_first(c) => rest.find(|c: char| !is_first(c) && !c.is_numeric() && c != '.'),
            c => Some(c.map_or(0, char::len_utf8)),
        };
        &rest[..length.unwrap_or(rest.len())]
    }

    /// Expects a token in the parentheses of the function that starts there.
    fn expect(&mut self, token: &str, start: usize) -> Result<(), ExpressionError> {
        match self.token() {
            found if found == token => {
                self.at += token.len();
                Ok(())
            }
            "" => self.fail(start, "its parenthesis is not closed"),
            found => {
                self.fail(self.at, format!("`{token}` or an operator is expected, not `{}`", found.escape_debug()))
            }
        }
    }

    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, ExpressionError> {
        Err(ExpressionError { at, message: message.into() })
    }
}

/// Whether a word can begin with it.
fn is_first(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn word(token: &str) -> Option<Word> {
    WORDS.iter().find(|(name, _)| *name == token).map(|(_, word)| *word)
}

/// What docs/monitor-channels.md lists of derived channels.
const WORDS: [(&str, Word); 40] = [
    ("^", Word::Two(4, f64::powf)),
    ("/", Word::Two(3, f64::div)),
    ("*", Word::Two(2, f64::mul)),
    ("-", Word::Two(1, f64::sub)),
    ("+", Word::Two(0, f64::add)),
    ("min", Word::Two(0, f64::min)),
    ("max", Word::Two(0, f64::max)),
    ("atan2", Word::Two(0, f64::atan2)),
    ("abs", Word::One(f64::abs)),
    ("signum", Word::One(f64::signum)),
    ("sqrt", Word::One(f64::sqrt)),
    ("cbrt", Word::One(f64::cbrt)),
    ("exp", Word::One(f64::exp)),
    ("ln", Word::One(f64::ln)),
    ("log", Word::One(f64::ln)),
    ("log2", Word::One(f64::log2)),
    ("log10", Word::One(f64::log10)),
    ("sin", Word::One(f64::sin)),
    ("cos", Word::One(f64::cos)),
    ("tan", Word::One(f64::tan)),
    ("asin", Word::One(f64::asin)),
    ("acos", Word::One(f64::acos)),
    ("atan", Word::One(f64::atan)),
    ("sinh", Word::One(f64::sinh)),
    ("cosh", Word::One(f64::cosh)),
    ("tanh", Word::One(f64::tanh)),
    ("asinh", Word::One(f64::asinh)),
    ("acosh", Word::One(f64::acosh)),
    ("atanh", Word::One(f64::atanh)),
    ("floor", Word::One(f64::floor)),
    ("ceil", Word::One(f64::ceil)),
    ("round", Word::One(f64::round)),
    ("trunc", Word::One(f64::trunc)),
    ("fract", Word::One(f64::fract)),
    ("PI", Word::Constant(PI)),
    ("π", Word::Constant(PI)),
    ("E", Word::Constant(E)),
    ("e", Word::Constant(E)),
    ("TAU", Word::Constant(TAU)),
    ("τ", Word::Constant(TAU)),
];

/// Max nested parentheses, signs and functions.
const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Result<f64, ExpressionError> {
        Expression::parse(text, |_| Ok(())).map(|read| {
            let known = |name: &String| match name.as_str() {
                "s/a" => 3.0,
                "s/b (1)" => -2.0,
                "run.half" => 0.5,
                _ => f64::NAN,
            };
            read.evaluate(&read.names().iter().map(known).collect::<Vec<_>>(), &mut Vec::new())
        })
    }

    /// The values are those of the library that read expressions before (exmex 0.21).
    #[test]
    fn operators_bind_as_they_always_have() {
        for (text, expected) in [
            ("-2^2", 4.0),
            ("-{s/a}^2", 9.0),
            ("2^-2", 0.25),
            ("2^3^2", 64.0),
            ("2*3^2", 18.0),
            ("2---3", -1.0),
            ("2-3-4", -5.0),
            ("2-3+4", 3.0),
            ("16/4/2", 2.0),
            ("2*16/4*3", 24.0),
            ("2*(3+4)", 14.0),
            ("sqrt 16 + 9", 13.0),
            ("sqrt (16)^2", 16.0),
            ("-sqrt(4)", -2.0),
            ("abs -4", 4.0),
            ("max(1,2)*max(3,4)", 8.0),
            ("max(min(1,2),3)", 3.0),
            ("2^max(1+1,2*1)", 4.0),
            ("sqrt max(4,9)", 3.0),
            ("1 max 2 + 3", 5.0),
            ("1 max 2 - 3", 1.0),
            ("1 + 2 max 3", 3.0),
            ("5 max 2 * 4", 8.0),
            ("{s/a} atan2 ({s/b (1)})", 3.0_f64.atan2(-2.0)),
            ("max({s/b (1)}, 2) * (1 + {s/a})", 8.0),
            ("{s/a} ^ {s/b (1)} ^ {run.half}", 1.0 / 3.0),
            ("{s/a} - {s/b (1)} + run.half", 5.5),
            ("sin(PI/2) + log2 8 + log10(1000) + ln(E) + log(e)", 9.0),
            ("cos(TAU) + cos(τ) - cos(π)", 3.0),
            ("signum(0) + round 2.5 + trunc(-1.7) + fract 1.25 + floor -1.5", 1.25),
            (".5 + 5. + 1.5", 7.0),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    /// That library refused the first three, and left out the function of the others, or part of the sum.
    #[test]
    fn arithmetic_is_right() {
        for (text, expected) in [
            ("max(3, min(1, 2))", 3.0),
            ("1.5E+2 + 1e3", 1150.0),
            ("1 +\t2", 3.0),
            ("sqrt({s/a}*2*6)", 6.0),
            ("-({s/a}+2+4)", -9.0),
            ("abs({s/b (1)}+0.5+0.25)", 1.25),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        assert!(value("sqrt -4 + 0 / 0").unwrap().is_nan());
        assert_eq!(value("-1/0"), Ok(f64::NEG_INFINITY));
    }

    #[test]
    fn mistakes_have_their_place() {
        let missing = "an operator is missing, one of + - * / ^ min max atan2";
        for (text, at, message) in [
            ("", 0, "a value is missing at the end"),
            ("1 + ", 4, "a value is missing at the end"),
            ("1 + *2", 4, "a value is expected, not `*`"),
            ("max 2", 0, "a value is expected, not `max`"),
            ("2PI", 1, missing),
            ("(1)(2)", 3, missing),
            ("1 % 2", 2, missing),
            ("1e", 1, missing),
            ("1 + 1.2.3", 4, "`1.2.3` is not a number"),
            ("1)", 1, "`)` without `(`"),
            ("2 * (1", 4, "its parenthesis is not closed"),
            ("2 * max(1, 2", 4, "its parenthesis is not closed"),
            ("max(1)", 5, "`,` or an operator is expected, not `)`"),
            ("max(1,2,3)", 7, "`)` or an operator is expected, not `,`"),
            ("1 + foo(2)", 4, "no function `foo`"),
            ("1 + {s/a", 4, "the brace is not closed"),
            ("1 + s/a}", 7, missing),
            ("\u{1b}", 0, "a value is expected, not `\\u{1b}`"),
        ] {
            assert_eq!(value(text), Err(ExpressionError { at, message: message.into() }), "{text}");
        }
    }

    #[test]
    fn names_are_words_with_dots_or_stand_in_braces() {
        let read = |text: &str| Expression::parse(text, |_| Ok(())).map(|read| read.names().join("|"));
        assert_eq!(read("{a/b c} + link.access.forward - x_1*{a/b c}"), Ok("a/b c|link.access.forward|x_1".into()));
        let none = Expression::parse("1 + {x}", |name| Err(format!("no {name}"))).unwrap_err();
        assert_eq!(none, ExpressionError { at: 4, message: "no x".into() });
    }

    #[test]
    fn depth_is_bounded() {
        for (open, close) in
            [("(", ")"), ("-", ""), ("sqrt ", ""), ("sin(", ")"), ("max(1,", ")"), ("1+2-3*4/5^(", ")")]
        {
            let nested = |depth: usize| value(&(open.repeat(depth) + "1" + &close.repeat(depth)));
            assert!(nested(32).is_ok(), "{open}");
            let deep = nested(100_000).unwrap_err();
            assert!(deep.message.starts_with("more than 64"), "{open}: {deep:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([-+*/^(),. 0-9eE]|\\{a\\}|max|sqrt|PI|[\\PC]){0,60}") {
            if let Err(error) = value(&text) {
                prop_assert!(text.is_char_boundary(error.at) && !error.message.contains(char::is_control), "{error:?}");
            }
        }
    }
}
