//! Definitions compiled together: what several of them ask of a packet is worked out once.
//!
//! Each key and each function, wherever it occurs, is one node; a node is evaluated when the first filter or key asks for it,
//! and remembered for the rest of the packet. So twenty definitions over the same addresses cost little more than one.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use super::expression::{Attribute, Expression, Function};
use super::filter::{Filter, Right, Test};
use super::kind::masked;
use super::packet::{self, Packet};
use super::table::{Key, Piece};
use super::value::{Scratch, Value};
use super::values::Kind;
use crate::names::{Geo, Lookups};

/// A node, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node(u32);

/// What a node does, and the nodes before it whose values it needs.
#[derive(Clone, Debug)]
struct Step {
    function: Function,
    keys: Vec<Node>,
}

/// A filter over nodes.
#[derive(Debug)]
pub(super) enum Condition {
    Test { node: Node, negated: bool, right: Right },
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// All nodes of all definitions of a shard.
#[derive(Debug, Default)]
pub(super) struct Plan {
    steps: Vec<Step>,
    known: HashMap<Expression, Node>,
}

/// What is known of the packet at hand.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// By node; a value of an earlier packet has an earlier turn.
    values: Vec<(u32, Value)>,
    /// By node, likewise: the value as a piece of keys. Length 0: the packet has no such thing; [`LONG`]: it is longer than a piece.
    pieces: Vec<(u32, Piece)>,
    turn: u32,
    pub(super) scratch: Scratch,
    /// Whether a value matches patterns, at a place by the hash of both: values come again and again, and a pattern takes half a
    /// microsecond.
    matched: Vec<(u64, bool)>,
    hasher: RandomState,
}

impl Memory {
    /// Forgets the last packet.
    pub(super) fn begin(&mut self, plan: &Plan) {
        self.scratch.clear();
        self.matched.resize(MATCHED, (0, false));
        if self.values.len() != plan.steps.len() || self.turn == u32::MAX {
            self.values.clear();
            self.values.resize(plan.steps.len(), (0, Value::Null));
            self.pieces.clear();
            self.pieces.resize(plan.steps.len(), (0, NOTHING));
            self.turn = 0;
        }
        self.turn += 1;
    }
}

impl Plan {
    /// The node of an expression; the same for the same.
    pub(super) fn node(&mut self, expression: &Expression) -> Node {
        if let Some(&node) = self.known.get(expression) {
            return node;
        }
        let step = Step { function: expression.function.clone(), keys: self.nodes(&expression.keys) };
        let node = Node(self.steps.len() as u32);
        self.steps.push(step);
        self.known.insert(expression.clone(), node);
        node
    }

    pub(super) fn nodes(&mut self, expressions: &[Expression]) -> Vec<Node> {
        expressions.iter().map(|expression| self.node(expression)).collect()
    }

    pub(super) fn condition(&mut self, filter: &Filter) -> Condition {
        match filter {
            Filter::Test(Test { left, negated, right }) => {
                Condition::Test { node: self.node(left), negated: *negated, right: right.clone() }
            }
            Filter::All(filters) => Condition::All(filters.iter().map(|filter| self.condition(filter)).collect()),
            Filter::Any(filters) => Condition::Any(filters.iter().map(|filter| self.condition(filter)).collect()),
        }
    }
}

/// A packet under evaluation.
pub(super) struct Evaluation<'e, 'a> {
    pub(super) plan: &'e Plan,
    pub(super) lookups: &'e Lookups,
    pub(super) packet: &'e Packet<'a>,
    pub(super) memory: &'e mut Memory,
}

impl Evaluation<'_, '_> {
    /// Whether the packet meets a filter.
    pub(super) fn meets(&mut self, condition: &Condition) -> bool {
        match condition {
            Condition::All(conditions) => conditions.iter().all(|condition| self.meets(condition)),
            Condition::Any(conditions) => conditions.iter().any(|condition| self.meets(condition)),
            Condition::Test { node, negated, right } => {
                self.know(*node);
                let Memory { values, scratch, matched, hasher, .. } = &mut *self.memory;
                let value = &values[node.0 as usize].1;
                let matches = match right {
                    Right::Values(literals) => literals.iter().any(|literal| literal.is(value, scratch)),
                    Right::Patterns(patterns) => scratch.render(*value).is_some_and(|span| {
                        let text = scratch.get(span);
                        let key = hasher.hash_one((patterns.as_ptr(), text));
                        let known = &mut matched[key as usize % MATCHED];
                        if known.0 != key {
                            *known = (key, patterns.iter().any(|pattern| pattern.is_match(text)));
                        }
                        known.1
                    }),
                };
                matches != *negated
            }
        }
    }

    /// The key that these nodes make, its bytes behind those of others if it is long; `None`: the packet lacks one of them.
    #[inline]
    pub(super) fn key(&mut self, nodes: &[Node], long: &mut Vec<u8>) -> Option<Key> {
        let mut key = Key::EMPTY;
        for &node in nodes {
            let piece = match self.piece(node) {
                Piece { length: 0, .. } => return None,
                Piece { length: LONG, .. } => return self.long_key(nodes, long),
                piece => piece,
            };
            match key.with(piece) {
                Some(longer) => key = longer,
                None => return self.long_key(nodes, long),
            }
        }
        Some(key)
    }

    fn long_key(&mut self, nodes: &[Node], long: &mut Vec<u8>) -> Option<Key> {
        let from = long.len();
        for &node in nodes {
            let value = self.value(node);
            if value.is_null() {
                long.truncate(from);
                return None;
            }
            value.encode(&self.memory.scratch, long);
        }
        let key = Key::new(&long[from..]);
        if !key.is_long() {
            long.truncate(from);
        }
        Some(key)
    }

    /// The value of a node as a piece of keys.
    #[inline]
    fn piece(&mut self, node: Node) -> Piece {
        let at = node.0 as usize;
        if self.memory.pieces[at].0 != self.memory.turn {
            self.know(node);
            let Memory { values, pieces, scratch, turn, .. } = &mut *self.memory;
            let value = &values[at].1;
            let piece = if value.is_null() { Some(NOTHING) } else { value.piece(scratch) };
            pieces[at] = (*turn, piece.unwrap_or(Piece { length: LONG, ..NOTHING }));
        }
        self.memory.pieces[at].1
    }

    /// What the value of a node adds to a sum.
    #[inline]
    pub(super) fn amount(&mut self, node: Node, kind: Kind) -> Option<u64> {
        self.know(node);
        let value = &self.memory.values[node.0 as usize].1;
        if kind == Kind::Count { (!value.is_null()).then_some(1) } else { value.number() }
    }

    /// The value of a node for this packet.
    fn value(&mut self, node: Node) -> Value {
        self.know(node);
        self.memory.values[node.0 as usize].1
    }

    /// Works out the value of a node, unless it is known.
    #[inline]
    fn know(&mut self, node: Node) {
        if self.memory.values[node.0 as usize].0 != self.memory.turn {
            self.evaluate(node);
        }
    }

    fn evaluate(&mut self, node: Node) {
        let (plan, at) = (self.plan, node.0 as usize);
        match &plan.steps[at] {
            Step { function: Function::Field(field, nth), .. } => {
                // Written where it stays: to copy what was written just now, in other pieces, the processor waits.
                let Memory { values, scratch, turn, .. } = &mut *self.memory;
                let known = &mut values[at];
                known.0 = *turn;
                self.packet.read_field(*field, *nth, scratch, &mut known.1);
            }
            step => {
                let value = self.call(step);
                self.memory.values[at] = (self.memory.turn, value);
            }
        }
    }

    fn call(&mut self, Step { function, keys }: &Step) -> Value {
        match function {
            Function::Field(..) => Value::Null,
            Function::Group(sets) => {
                let Some(ip) = packet::ip(self.value(keys[0])) else { return Value::Null };
                let found = sets.iter().find_map(|set| self.lookups.groups.get(set)?.find(ip));
                self.word(found)
            }
            Function::Country(attribute) => {
                let (geo, value) = (self.lookups.country.as_deref(), self.value(keys[0]));
                self.country(geo, value, *attribute)
            }
            Function::Asn(attribute) => {
                let (geo, value) = (self.lookups.asn.as_deref(), self.value(keys[0]));
                self.system(geo, value, *attribute)
            }
            Function::Oui => match self.value(keys[0]) {
                Value::Mac([a, b, c, ..]) => self.format(format_args!("{a:02X}{b:02X}{c:02X}")),
                _ => Value::Null,
            },
            Function::Mask(bits) => match packet::ip(self.value(keys[0])) {
                Some(ip) => Value::Ip(masked(ip, *bits)),
                None => Value::Null,
            },
            Function::Prefix(separator, tokens) => self.tokens(keys[0], |text| {
                let end = text.match_indices(separator.as_str()).nth(tokens.checked_sub(1)?).map(|(at, _)| at);
                Some((0, end.unwrap_or(text.len())))
            }),
            Function::Suffix(separator, tokens) => self.tokens(keys[0], |text| {
                let start = text.rmatch_indices(separator.as_str()).nth(tokens.checked_sub(1)?);
                Some((start.map_or(0, |(at, _)| at + separator.len()), text.len()))
            }),
            Function::First(separator, words) => self.tokens(keys[0], |text| {
                let mut at = 0;
                for token in text.split(separator.as_str()) {
                    if words.iter().any(|word| word == token) {
                        return Some((at, at + token.len()));
                    }
                    at += token.len() + separator.len();
                }
                None
            }),
            Function::Null(text) => match self.value(keys[0]) {
                Value::Null => self.word(Some(text)),
                value => value,
            },
            Function::Or => {
                keys.iter().map(|key| self.value(*key)).find(|value| !value.is_null()).unwrap_or(Value::Null)
            }
            Function::Range(least, most) => match self.value(keys[0]).number() {
                Some(number) => Value::Truth((*least..=*most).contains(&number)),
                None => Value::Null,
            },
            Function::Concat(separator) => self.concat(separator, keys),
            Function::Eq => {
                let (a, b) = (self.value(keys[0]), self.value(keys[1]));
                self.equal(a, b).map_or(Value::Null, Value::Truth)
            }
            Function::If(text) => {
                let value = self.value(keys[0]);
                let is_it = text.is(&value, &self.memory.scratch);
                self.value(keys[if is_it { 1 } else { 2 }])
            }
            Function::IfName => {
                let index = self.value(keys[0]);
                packet::if_name(self.packet, index, &mut self.memory.scratch)
            }
        }
    }

    /// A part of a key's text.
    fn tokens(&mut self, key: Node, find: impl Fn(&str) -> Option<(usize, usize)>) -> Value {
        let value = self.value(key);
        let scratch = &mut self.memory.scratch;
        let part = scratch.render(value).and_then(|span| Some((span, find(scratch.get(span))?)));
        part.map_or(Value::Null, |(span, (from, to))| Scratch::part(span, from, to))
    }

    fn concat(&mut self, separator: &str, keys: &[Node]) -> Value {
        let mut spans = [None; super::expression::MAX_KEYS];
        for (span, key) in spans.iter_mut().zip(keys) {
            let value = self.value(*key);
            *span = self.memory.scratch.render(value);
            if span.is_none() {
                return Value::Null;
            }
        }
        self.memory.scratch.join(separator, spans.iter().flatten().copied())
    }

    /// `None` if one of them is not there.
    fn equal(&mut self, a: Value, b: Value) -> Option<bool> {
        if a.is_null() || b.is_null() {
            return None;
        }
        if a == b {
            return Some(true);
        }
        let scratch = &mut self.memory.scratch;
        let (a, b) = (scratch.render(a)?, scratch.render(b)?);
        Some(scratch.get(a) == scratch.get(b))
    }

    fn country(&mut self, geo: Option<&Geo>, value: Value, attribute: Attribute) -> Value {
        let Some(place) = geo.zip(packet::ip(value)).and_then(|(geo, ip)| geo.country(ip)) else { return Value::Null };
        match (attribute, place.name) {
            (Attribute::Short, _) => self.word(Some(place.code)),
            (Attribute::Name, name) => self.word(name),
            (Attribute::Both, Some(name)) => self.format(format_args!("{}-{name}", place.code)),
            (Attribute::Both, None) => self.word(Some(place.code)),
        }
    }

    fn system(&mut self, geo: Option<&Geo>, value: Value, attribute: Attribute) -> Value {
        let Some(system) = geo.zip(packet::ip(value)).and_then(|(geo, ip)| geo.system(ip)) else { return Value::Null };
        match (attribute, system.name) {
            (Attribute::Name, name) => self.word(name),
            (Attribute::Both, Some(name)) => self.format(format_args!("{}-{name}", system.number)),
            (Attribute::Short, _) | (Attribute::Both, None) => Value::Number(system.number.into()),
        }
    }

    fn word(&mut self, word: Option<&str>) -> Value {
        word.map_or(Value::Null, |word| self.memory.scratch.foreign(word.as_bytes()))
    }

    fn format(&mut self, text: std::fmt::Arguments<'_>) -> Value {
        use std::fmt::Write;
        // Writing to a string does not fail.
        self.memory.scratch.write(|out| out.write_fmt(text).unwrap_or_default())
    }
}

/// How many answers of patterns are known: 16 KiB.
const MATCHED: usize = 1024;

/// No value.
const NOTHING: Piece = Piece { length: 0, bytes: 0 };

/// Longer than any piece.
const LONG: u8 = u8::MAX;
