//! Nothing is made: the manifest's build dependencies count only where there is a build script.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
