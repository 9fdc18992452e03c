//! Where libraries and models are found. Never in the working directory: it can belong to somebody else, and a library runs
//! code when it is loaded.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use super::{compute::Runtime, config::Config};

/// The folder of the checkout that the program was built in, if it is a build for development. The variable comes from
/// `.cargo/config.toml`. A build for other machines sets it to an empty text.
const OF_BUILD: Option<&str> = option_env!("FACESCAN_RUNTIME");

impl Runtime {
    /// Returns the folder that relative paths of libraries and models start from: `runtime.dir`, or the first of these that
    /// exists: `runtime` beside the program, the folder of the package that installed the program, the folder of the checkout
    /// that the program was built in, and the user's folder for data. Without any, it is the last one.
    pub fn folder(&self) -> PathBuf {
        let build = OF_BUILD.filter(|folder| !folder.is_empty());
        let known = [
            beside_program("runtime"),
            of_package(),
            build.map(PathBuf::from),
            of_user(),
        ];
        self.dir
            .clone()
            .or_else(|| known.into_iter().flatten().find(|folder| folder.is_dir()))
            .or_else(of_user)
            // Neither a home nor another folder: a path that does not exist, so that errors name it.
            .unwrap_or_else(|| PathBuf::from("/usr/local/share/facescan"))
    }

    /// Returns the library of ONNX Runtime: `runtime.library`, or the first that exists of `ORT_DYLIB_PATH`, `onnxruntime/`
    /// in [`folder`](Self::folder), and the program's own folder. Without any, it is a name that the system's loader looks up.
    pub fn onnxruntime(&self) -> PathBuf {
        let name = format!(
            "{}onnxruntime{}",
            env::consts::DLL_PREFIX,
            env::consts::DLL_SUFFIX
        );
        let folder = self.folder();
        if let Some(path) = &self.library {
            return folder.join(path);
        }
        let in_folder = folder.join("onnxruntime").join(&name);
        let named = env::var_os("ORT_DYLIB_PATH").map(PathBuf::from);
        [
            named.filter(|path| path.is_absolute()),
            Some(in_folder.clone()),
            beside_program(&name),
        ]
        .into_iter()
        .flatten()
        .find(|path| path.exists())
        // The loaders of other systems also look into the working directory.
        .unwrap_or_else(|| match cfg!(target_os = "linux") {
            true => name.into(),
            false => in_folder,
        })
    }

    /// Returns the folder of the providers that are separate libraries.
    pub fn plugins(&self) -> PathBuf {
        self.folder().join(&self.plugins_dir)
    }

    /// Returns the folder of OpenVINO: `openvino` in [`plugins`](Self::plugins), or that of the Python package beside which the
    /// program was installed.
    pub fn openvino(&self) -> PathBuf {
        let own = self.plugins().join("openvino");
        let packaged = || {
            python_packages()?
                .map(|folder| folder.join("openvino/libs"))
                .find(|folder| folder.is_dir())
        };
        match own.is_dir() {
            true => own,
            false => packaged().unwrap_or(own),
        }
    }

    /// Returns the folder of the model files as they were fetched.
    pub fn shipped(&self) -> PathBuf {
        self.folder().join(&self.shipped_dir)
    }

    /// Returns the library of libjpeg-turbo, if the settings name one. A name without a folder is left to the system's loader.
    pub fn turbojpeg_library(&self) -> Option<PathBuf> {
        let path = self.turbojpeg.as_ref()?;
        Some(match is_name(path) {
            true => path.clone(),
            false => self.folder().join(path),
        })
    }
}

impl Config {
    /// Returns the folder of the models that are loaded. A package has the models as they were fetched, and its folder is
    /// often not the user's, so the prepared ones are in the user's folder for data unless the package has them.
    pub fn models_dir(&self) -> PathBuf {
        let folder = self.runtime.folder();
        let beside = folder.join(&self.models.dir);
        let is_package = of_package().is_some_and(|package| package == folder);
        match of_user().filter(|_| is_package && !beside.is_dir()) {
            Some(user) => user.join(&self.models.dir),
            None => beside,
        }
    }
}

fn is_name(path: &Path) -> bool {
    path.file_name() == Some(path.as_os_str())
}

fn beside_program(name: &str) -> Option<PathBuf> {
    Some(program_folder()?.join(name))
}

/// Returns the folder of the program itself, and not of a link to it.
fn program_folder() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let program = program.canonicalize().unwrap_or(program);
    Some(program.parent()?.to_owned())
}

/// Returns the folder of the files that a package installs with the program: `lib/facescan` beside `bin`.
fn of_package() -> Option<PathBuf> {
    Some(prefix(&program_folder()?)?.join("lib/facescan"))
}

/// Returns the folder that has the `bin` of the program. A program elsewhere was not installed, and neither was one below a folder
/// that everybody can write.
fn prefix(program_folder: &Path) -> Option<&Path> {
    let prefix = program_folder.parent()?;
    (program_folder.ends_with("bin") && !is_everybodys(prefix)).then_some(prefix)
}

#[cfg(unix)]
fn is_everybodys(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    folder
        .metadata()
        .is_ok_and(|folder| folder.permissions().mode() & 0o002 != 0)
}

#[cfg(not(unix))]
fn is_everybodys(_: &Path) -> bool {
    false
}

/// Returns the folders of Python packages beside the program, which pip installed with it.
fn python_packages() -> Option<impl Iterator<Item = PathBuf>> {
    let program = program_folder()?;
    let versions = fs::read_dir(prefix(&program)?.join("lib")).ok()?;
    let mut versions: Vec<PathBuf> = versions
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with("python3")
        })
        .collect();
    versions.sort();
    Some(
        versions
            .into_iter()
            .flat_map(|version| ["site-packages", "dist-packages"].map(|name| version.join(name))),
    )
}

/// Returns the user's folder for data of this program.
fn of_user() -> Option<PathBuf> {
    user_data(env::var_os("XDG_DATA_HOME"), env::var_os("HOME"))
}

/// Returns the user's folder for data, by the XDG Base Directory Specification, which ignores relative paths.
fn user_data(data_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let home = || Some(home.and_then(absolute)?.join(".local/share"));
    Some(data_home.and_then(absolute).or_else(home)?.join("facescan"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sources;

    #[test]
    fn the_users_folder_follows_xdg_and_ignores_relative_paths() {
        let folder = |data: Option<&str>, home: Option<&str>| {
            user_data(data.map(Into::into), home.map(Into::into))
        };
        let own = Some(PathBuf::from("/home/ann/.local/share/facescan"));
        assert_eq!(
            folder(Some("/data"), Some("/home/ann")),
            Some("/data/facescan".into())
        );
        assert_eq!(folder(None, Some("/home/ann")), own);
        assert_eq!(folder(Some("data"), Some("/home/ann")), own);
        assert_eq!(folder(Some("."), Some("")), None);
    }

    #[test]
    fn a_package_is_beside_a_program_in_a_folder_of_programs() {
        assert_eq!(prefix(Path::new("/usr/bin")), Some(Path::new("/usr")));
        assert_eq!(prefix(Path::new("/tmp/target/release")), None);
        assert_eq!(
            prefix(Path::new("/tmp/bin")),
            None,
            "anybody can write /tmp"
        );
    }

    #[test]
    fn relative_paths_start_from_the_runtime_folder_and_not_from_the_working_directory() {
        let mut config = Config::load(&Sources::default()).unwrap().0;
        config.runtime.dir = Some("/opt/facescan".into());
        config.runtime.library = Some("./x.so".into());
        config.runtime.turbojpeg = Some("./x.so".into());
        let runtime = &config.runtime;
        for (path, expected) in [
            (config.models_dir(), "/opt/facescan/models"),
            (runtime.plugins(), "/opt/facescan/plugins"),
            (runtime.shipped(), "/opt/facescan/shipped"),
            (runtime.onnxruntime(), "/opt/facescan/x.so"),
            (runtime.turbojpeg_library().unwrap(), "/opt/facescan/x.so"),
        ] {
            assert_eq!(path, Path::new(expected));
        }
        config.runtime.turbojpeg = Some("libturbojpeg.so.0".into());
        assert_eq!(
            config.runtime.turbojpeg_library().as_deref(),
            Some(Path::new("libturbojpeg.so.0"))
        );
    }
}
