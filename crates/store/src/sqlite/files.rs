//! The folder and the files of a database: only the user of the process can read them.

use std::{
    fs::{self, DirBuilder},
    io,
    path::{Path, PathBuf},
};

use crate::error::StoreError;

/// What SQLite adds to the name of the file for its other files.
const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Creates the folder of a database file and, with `create`, an empty file, which SQLite takes for a new database. Tightens the
/// permissions of files that exist.
///
/// SQLite gives its other files the permissions of the database file.
///
/// # Errors
///
/// [`StoreError::Directory`] if the folder cannot be created.
pub(super) fn prepare(file: &Path, create: bool) -> Result<(), StoreError> {
    if let Some(directory) = file.parent().filter(|path| !path.as_os_str().is_empty()) {
        create_directory(directory).map_err(|source| StoreError::Directory {
            directory: directory.to_owned(),
            source,
        })?;
        warn_if_others_can_use(directory);
    }
    if create && let Err(error) = create_private(file) {
        // SQLite reports it too, with the reason that its callers understand.
        tracing::debug!(%error, file = %file.display(), "the database file cannot be created");
    }
    for suffix in SUFFIXES {
        let mut path = file.as_os_str().to_owned();
        path.push(suffix);
        let path = PathBuf::from(path);
        match tighten(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(
                    %error,
                    file = %path.display(),
                    "other users can read a file of the database; remove their permissions"
                );
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(unix)]
fn create_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

#[cfg(not(unix))]
fn create_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(directory)
}

#[cfg(unix)]
fn create_private(file: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options
        .append(true)
        .create(true)
        .mode(0o600)
        .open(file)
        .map(drop)
}

#[cfg(not(unix))]
fn create_private(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Removes the permissions of the group and of others. A user who is not the owner may not, which is an error if there are any.
#[cfg(unix)]
fn tighten(file: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(file)?.permissions().mode();
    match mode & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(file, fs::Permissions::from_mode(mode & 0o700)),
    }
}

#[cfg(not(unix))]
fn tighten(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A folder that exists keeps its permissions, because it can have other files.
#[cfg(unix)]
fn warn_if_others_can_use(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(directory).map_or(0, |folder| folder.permissions().mode());
    if mode & 0o007 != 0 {
        tracing::warn!(
            folder = %directory.display(),
            mode = format!("{:o}", mode & 0o777),
            "other users can open the folder of the database; run `chmod 700` on it"
        );
    }
}

#[cfg(not(unix))]
fn warn_if_others_can_use(_: &Path) {}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> Option<u32> {
        Some(fs::metadata(path).ok()?.permissions().mode() & 0o777)
    }

    #[test]
    fn new_files_and_folders_are_private_and_existing_files_are_tightened() {
        let folder = std::env::temp_dir().join(format!("facescan-{}", uuid::Uuid::now_v7()));
        let file = folder.join("below").join("facescan.sqlite");
        prepare(&file, true).unwrap();
        assert_eq!((mode(&folder), mode(&file)), (Some(0o700), Some(0o600)));

        let log = folder.join("below").join("facescan.sqlite-wal");
        fs::write(&log, "").unwrap();
        for path in [&file, &log] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o664)).unwrap();
        }
        prepare(&file, false).unwrap();
        assert_eq!((mode(&file), mode(&log)), (Some(0o600), Some(0o600)));
        fs::remove_dir_all(folder).unwrap();
    }
}
