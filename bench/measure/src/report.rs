//! What is printed: figures as they come, and at the end which goals are met.

use anyhow::Result;
use serde_json::{Value, json};

use crate::Quiet;

/// A report being written.
#[derive(Default)]
pub struct Report {
    goals: Vec<Goal>,
    figures: Vec<Value>,
    disturbed: Vec<String>,
}

struct Goal {
    what: String,
    goal: String,
    measured: String,
    met: bool,
}

impl Report {
    /// Notes a figure for the machine-readable report.
    pub fn figure(&mut self, figure: Value) {
        self.figures.push(figure);
    }

    /// Notes a goal, and returns the words for it.
    pub fn goal(&mut self, what: &str, goal: &str, measured: &str, met: bool) -> String {
        let (what, goal, measured) = (what.to_owned(), goal.to_owned(), measured.to_owned());
        let words = format!("(goal {goal}: {})", if met { "met" } else { "MISSED" });
        self.goals.push(Goal { what, goal, measured, met });
        words
    }

    /// Runs a scene, and says if the machine was not its alone.
    pub fn scene(&mut self, name: &str, run: impl FnOnce(&mut Report) -> Result<()>) -> Result<()> {
        let quiet = Quiet::watch()?;
        run(self)?;
        let (others, stolen) = quiet.others()?;
        self.figure(json!({"scene": name, "processors_of_others": others, "processors_stolen": stolen}));
        if others + stolen > DISTURBING {
            let words = format!("{name}: others took {others:.2} processors, the hypervisor {stolen:.2}");
            println!("  NOT QUIET: {words}");
            self.disturbed.push(words);
        }
        println!();
        Ok(())
    }

    /// Goals, met and missed.
    pub fn print(&self) {
        println!("Goals");
        for Goal { what, goal, measured, met } in &self.goals {
            println!("  {:6} {what}: {measured} (goal {goal})", if *met { "met" } else { "MISSED" });
        }
        let met = self.goals.iter().filter(|goal| goal.met).count();
        println!("  {met} of {} met", self.goals.len());
        for words in &self.disturbed {
            println!("  NOT QUIET {words}");
        }
    }

    /// All of it for machines.
    pub fn json(&self) -> Value {
        let goal = |Goal { what, goal, measured, met }: &Goal| json!({"what": what, "goal": goal, "measured": measured, "met": met});
        let goals: Vec<Value> = self.goals.iter().map(goal).collect();
        json!({"goals": goals, "figures": self.figures, "disturbed": self.disturbed})
    }
}

/// Processors that others may take before figures are called disturbed.
const DISTURBING: f64 = 0.1;

/// The middle one; of an even number the upper.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
