//! Finds the files and URLs to scan.

use std::path::{Component, Path, PathBuf};

use facescan_pipeline::results::ErrorEntry;
use walkdir::{DirEntry, WalkDir};

use crate::preprocessor::Source;

/// The file extensions of the accepted formats.
const ENDINGS: [&str; 10] = [
    "jpg", "jpeg", "jpe", "jfif", "png", "webp", "gif", "bmp", "tif", "tiff",
];

/// The folders in which systems and applications keep copies, thumbnails and deleted files.
const LEFT_OUT_FOLDERS: [&str; 7] = [
    "@eaDir",
    "#recycle",
    "$RECYCLE.BIN",
    "__MACOSX",
    "lost+found",
    "System Volume Information",
    "Thumbnails",
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
    /// Returns the path or URL as text. Bytes that are not UTF-8 are written as `\xff`, so that two names stay two.
    pub fn name(&self) -> String {
        name(&self.path)
    }

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

/// Returns a path as text. Bytes that are not UTF-8 are written as `\xff`.
pub fn name(path: &Path) -> String {
    let chunks = path.as_os_str().as_encoded_bytes().utf8_chunks();
    chunks.fold(String::new(), |mut text, chunk| {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
        text
    })
}

/// Checks that every path exists and has images, before the application starts. A text that begins like a URL is not a path.
///
/// # Errors
/// Names the path that does not exist, or in which there is no image.
pub fn check(paths: &[PathBuf]) -> anyhow::Result<()> {
    for path in paths {
        let is_there = url_of(path).is_some() || path.exists();
        anyhow::ensure!(is_there, "{}: no such file or folder", path.display());
        let mut images = images(std::slice::from_ref(path));
        anyhow::ensure!(
            images.next().is_some(),
            "{}: there is no image in this folder; images end in .{}{}",
            path.display(),
            ENDINGS.join(", ."),
            LeftOut::count(std::slice::from_ref(path)).after_dot()
        );
    }
    Ok(())
}

/// Says on standard error what a search of the paths left out.
pub fn say_what_was_left_out(paths: &[PathBuf]) {
    if let Some(sentence) = LeftOut::count(paths).sentence() {
        eprintln!("{sentence}");
    }
}

/// What a search leaves out.
#[derive(Debug, Default, PartialEq)]
pub struct LeftOut {
    /// Files and folders whose name begins with a dot.
    hidden: u64,
    /// Folders with thumbnails, deleted files and the like.
    folders: u64,
    /// Images by their name that are pipes, sockets or devices.
    not_files: u64,
}

impl LeftOut {
    /// Counts what a search of the paths leaves out.
    pub fn count(paths: &[PathBuf]) -> Self {
        let mut left_out = Self::default();
        for root in paths.iter().filter(|path| url_of(path).is_none()) {
            let mut entries = WalkDir::new(root).into_iter();
            while let Some(entry) = entries.next() {
                let Ok(entry) = entry else { continue };
                let count = match reason(&entry) {
                    Some(Reason::Hidden) => &mut left_out.hidden,
                    Some(Reason::Folder) => &mut left_out.folders,
                    Some(Reason::NotAFile) => &mut left_out.not_files,
                    None => continue,
                };
                *count += 1;
                if entry.file_type().is_dir() {
                    entries.skip_current_dir();
                }
            }
        }
        left_out
    }

    fn after_dot(&self) -> String {
        match self.sentence() {
            Some(sentence) => format!(". {sentence}"),
            None => String::new(),
        }
    }

    /// Returns what a person should know of it.
    pub fn sentence(&self) -> Option<String> {
        let parts = [
            (self.hidden, "hidden"),
            (self.folders, "folders of thumbnails or deleted files"),
            (self.not_files, "no files but pipes, sockets or devices"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!parts.is_empty()).then(|| format!("left out: {}", parts.join(", ")))
    }
}

enum Reason {
    Hidden,
    Folder,
    NotAFile,
}

/// Returns why a search leaves an entry out. What the command line names is never left out.
fn reason(entry: &DirEntry) -> Option<Reason> {
    let name = entry.file_name().as_encoded_bytes();
    let is_folder = entry.file_type().is_dir();
    let is_listed = LEFT_OUT_FOLDERS
        .iter()
        .any(|folder| name.eq_ignore_ascii_case(folder.as_bytes()));
    if entry.depth() == 0 {
        None
    } else if name.starts_with(b".") {
        Some(Reason::Hidden)
    } else if is_folder && is_listed {
        Some(Reason::Folder)
    } else if !is_folder
        && is_image(entry.path())
        && !entry.path().is_file()
        && entry.path().exists()
    {
        Some(Reason::NotAFile)
    } else {
        None
    }
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
        .filter_entry(|entry| reason(entry).is_none())
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
    fn copies_of_systems_are_left_out_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        for below in ["@eaDir", ".cache", "__MACOSX", "sub"] {
            std::fs::create_dir(folder.path().join(below)).unwrap();
        }
        for name in [
            "@eaDir/a.jpg",
            ".cache/a.jpg",
            "__MACOSX/._a.jpg",
            "sub/._a.jpg",
            "sub/a.jpg",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let paths = [folder.path().to_owned()];
        let found: Vec<_> = images(&paths).map(|found| found.relative).collect();
        assert_eq!(found, [PathBuf::from("sub/a.jpg")]);
        let sentence = LeftOut::count(&paths).sentence();
        let expected = "left out: 2 hidden, 2 folders of thumbnails or deleted files";
        assert_eq!(sentence.as_deref(), Some(expected));
        // What the command line names is read.
        let named = folder.path().join("@eaDir");
        assert_eq!(images(&[named]).count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_with_the_name_of_an_image_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("a.jpg");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let paths = [folder.path().to_owned()];
        assert_eq!(images(&paths).count(), 0);
        assert_eq!(LeftOut::count(&paths).not_files, 1);
        let error = check(&paths).unwrap_err().to_string();
        assert!(
            error.contains("there is no image in this folder"),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn two_names_that_are_not_utf_8_stay_two() {
        use std::os::unix::ffi::OsStrExt as _;
        let name_of = |bytes: &[u8]| name(Path::new(std::ffi::OsStr::from_bytes(bytes)));
        assert_eq!(name_of(b"a\xff.jpg"), "a\\xff.jpg");
        assert_ne!(name_of(b"a\xfe.jpg"), name_of(b"a\xff.jpg"));
        assert_eq!(name_of("ä.jpg".as_bytes()), "ä.jpg");
    }

    #[test]
    fn a_missing_folder_is_a_result_with_an_error() {
        let found: Vec<_> = images(&["/no/such/folder".into()]).collect();
        assert_eq!(found.len(), 1);
        assert!(found[0].unreadable.is_some());
    }
}
