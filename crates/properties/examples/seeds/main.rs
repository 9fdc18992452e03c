//! Writes the inputs that fuzzing starts from. Run `cargo run -p facescan-properties --example seeds -- fuzz/corpus`.
//!
//! Inputs that a fuzzer found are in the same folders. This program does not touch them.

mod images;
mod models;
mod texts;

use std::{
    env, fs,
    io::{Error, Result},
    path::PathBuf,
};

/// Writes the inputs of each target to its folder.
struct Folder(PathBuf);

impl Folder {
    /// Writes one input of a target.
    fn write(&self, target: &str, name: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let folder = self.0.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), content)
    }
}

fn main() -> Result<()> {
    let folder = env::args_os().nth(1);
    let folder = folder.ok_or_else(|| Error::other("name the folder of the inputs"))?;
    let folder = Folder(folder.into());
    images::write(&folder)?;
    models::write(&folder)?;
    texts::write(&folder)
}
