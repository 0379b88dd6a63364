//! What changes the machine's settings, judges times, or counts of the whole machine.

mod advice;
mod check;
mod machine;
mod million;
