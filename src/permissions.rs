//! The permissions of the files that the program creates.

/// Lets only the user of the process read, change and list the files and folders that it creates from now on. They have vectors of
/// faces, images and secrets.
///
/// The mask belongs to the process, so call this before other threads create files.
#[cfg(unix)]
pub fn keep_new_files_private() {
    use rustix::{fs::Mode, process::umask};
    umask(Mode::RWXG | Mode::RWXO);
}

/// Does nothing: new files have the permissions of their folder.
#[cfg(not(unix))]
pub fn keep_new_files_private() {}
