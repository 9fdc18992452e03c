//! Finds the files and URLs to scan.

use std::path::{Component, Path, PathBuf};

use facescan_pipeline::results::ErrorEntry;
use walkdir::WalkDir;

use crate::preprocessor::Source;

/// The file extensions of the accepted formats.
const ENDINGS: [&str; 10] = [
    "jpg", "jpeg", "jpe", "jfif", "png", "webp", "gif", "bmp", "tif", "tiff",
];

/// A file or a URL to scan.
#[derive(Debug, PartialEq)]
pub struct Found {
    /// The path of the file, or the URL.
    pub path: PathBuf,
    /// The URL, if the argument is a URL.
    pub url: Option<String>,
    /// The path relative to the named folder, or the file name of a named file. If the command line names several
    /// paths, it is the whole path without the root, so that all relative paths differ.
    pub relative: PathBuf,
    /// The reason why the file cannot be read, if the search failed.
    pub unreadable: Option<String>,
}

impl Found {
    /// Returns the source of the bytes.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be read, if the search failed.
    pub fn source(&self) -> Result<Source, ErrorEntry> {
        match (&self.unreadable, &self.url) {
            (Some(reason), _) => Err(ErrorEntry::unreadable(reason)),
            (None, Some(url)) => Ok(Source::Url(url.clone())),
            (None, None) => Ok(Source::File(self.path.clone())),
        }
    }
}

/// Checks that every path exists, before the application starts. A text that begins like a URL is not a path.
///
/// # Errors
/// Names the path that does not exist.
pub fn check(paths: &[PathBuf]) -> anyhow::Result<()> {
    for path in paths {
        let is_there = url_of(path).is_some() || path.exists();
        anyhow::ensure!(is_there, "{}: no such file or folder", path.display());
    }
    Ok(())
}

fn url_of(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let is_web = ["http", "https"]
        .iter()
        .any(|web| scheme.eq_ignore_ascii_case(web));
    is_web.then_some(text)
}

fn found_url(text: &str) -> Found {
    let below = text.split_once("://").map_or(text, |(_, below)| below);
    Found {
        path: text.into(),
        url: Some(text.to_owned()),
        // The host becomes the first folder.
        relative: named_part(Path::new(below)),
        unreadable: None,
    }
}

/// Returns the named files of any extension, the named URLs, and the images in the named folders in the order of their
/// names. The search is lazy, so any number of files needs little memory.
pub fn images(paths: &[PathBuf]) -> impl Iterator<Item = Found> {
    let several = paths.len() > 1;
    paths.iter().flat_map(move |root| {
        let url = url_of(root).map(found_url);
        let files = url.is_none().then(|| below(root, several));
        url.into_iter().chain(files.into_iter().flatten())
    })
}

/// Returns the images in a folder, or the one named file.
fn below(root: &Path, several: bool) -> impl Iterator<Item = Found> {
    WalkDir::new(root)
        .sort_by_file_name()
        .into_iter()
        .filter_map(move |entry| match entry {
            Ok(entry) if entry.file_type().is_dir() => None,
            // A link to a folder is followed if the command line names it.
            Ok(entry) if entry.depth() == 0 && entry.path().is_dir() => None,
            Ok(entry) if entry.depth() > 0 && !is_image(entry.path()) => None,
            Ok(entry) => Some(Found {
                relative: if several {
                    named_part(entry.path())
                } else {
                    relative(root, entry.path())
                },
                path: entry.into_path(),
                url: None,
                unreadable: None,
            }),
            Err(error) => Some(Found {
                path: error.path().unwrap_or(root).to_owned(),
                url: None,
                relative: PathBuf::new(),
                unreadable: Some(error.to_string()),
            }),
        })
}

fn is_image(path: &Path) -> bool {
    path.extension()
        .and_then(|ending| ending.to_str())
        .is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str()))
}

fn relative(root: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix(root) {
        Ok(below) if !below.as_os_str().is_empty() => below.to_owned(),
        _ => path.file_name().map(PathBuf::from).unwrap_or_default(),
    }
}

/// Returns the path without its root and its `..` components.
fn named_part(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_list_their_images_in_order_and_named_files_need_no_extension() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        for name in ["b.JPG", "a.png", "notes.txt", "sub/c.webp"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let relative = |named: &[PathBuf]| -> Vec<PathBuf> {
            images(named).map(|found| found.relative).collect()
        };
        let expected = ["a.png", "b.JPG", "sub/c.webp"].map(PathBuf::from);
        assert_eq!(relative(&[folder.path().to_owned()]), expected);
        #[cfg(unix)]
        {
            let links = tempfile::tempdir().unwrap();
            let link = links.path().join("link");
            std::os::unix::fs::symlink(folder.path(), &link).unwrap();
            assert_eq!(relative(&[link]), expected);
        }
        let file = folder.path().join("notes.txt");
        assert_eq!(
            relative(std::slice::from_ref(&file)),
            [PathBuf::from("notes.txt")]
        );

        // With several arguments, each keeps its folder.
        let both = relative(&[folder.path().join("sub"), file]);
        let below = |name: &str| folder.path().strip_prefix("/").unwrap().join(name);
        assert_eq!(both, [below("sub/c.webp"), below("notes.txt")]);
    }

    #[test]
    fn a_url_stays_unchanged_and_its_host_becomes_a_folder() {
        let url = "https://example.com/a/../b.jpg?size=2";
        let found: Vec<_> = images(&[url.into()]).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].url.as_deref(), Some(url));
        assert_eq!(found[0].path.to_str(), Some(url));
        // No drawing is written outside the output folder.
        assert_eq!(found[0].relative, Path::new("example.com/a/b.jpg?size=2"));
        assert!(check(&["HTTP://example.com".into()]).is_ok());
        assert!(check(&["ftp://example.com".into()]).is_err());
    }

    #[test]
    fn a_missing_folder_is_a_result_with_an_error() {
        let found: Vec<_> = images(&["/no/such/folder".into()]).collect();
        assert_eq!(found.len(), 1);
        assert!(found[0].unreadable.is_some());
    }
}
