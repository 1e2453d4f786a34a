//! The folder and the user of a server that refuses root.
//!
//! Such a server runs as its own user when we are root, so that its data must lie where that user may go: below the run folder
//! if every folder above it lets others pass, else in the system's folder for temporary files, with a link beside the log that
//! says where. Whoever clears the run folder follows that link, so nothing is left behind.

use std::env;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ServiceError;

const NAME: &str = "home";
const PASS: u32 = 0o001;

/// A folder that belongs to the user a server runs as.
pub(super) struct Home {
    path: PathBuf,
    owner: Option<Owner>,
}

struct Owner {
    user: u32,
    group: u32,
}

impl Home {
    /// An empty home below `folder`. As root it belongs to the first of `users` that this machine knows.
    pub fn create(folder: &Path, users: &[&str]) -> Result<Self, ServiceError> {
        let path = folder.join(NAME);
        let what = || format!("creating {}", path.display());
        if !rustix::process::geteuid().is_root() {
            fs::create_dir_all(&path).map_err(ServiceError::io(what()))?;
            return Ok(Self { path, owner: None });
        }
        let owner = owner(users)?;
        let path = if lets_others_pass(folder) {
            fs::create_dir_all(&path).map_err(ServiceError::io(what()))?;
            path
        } else {
            let elsewhere = elsewhere()?;
            std::os::unix::fs::symlink(&elsewhere, &path).map_err(ServiceError::io(what()))?;
            elsewhere
        };
        fs::set_permissions(&path, Permissions::from_mode(0o700))
            .and_then(|()| chown(&path, Some(owner.user), Some(owner.group)))
            .map_err(ServiceError::io(format!("giving {} to its user", path.display())))?;
        Ok(Self { path, owner: Some(owner) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it, for the eyes of its user alone.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, ServiceError> {
        let file = self.path.join(name);
        fs::write(&file, text)
            .and_then(|()| fs::set_permissions(&file, Permissions::from_mode(0o600)))
            .and_then(|()| match &self.owner {
                Some(owner) => chown(&file, Some(owner.user), Some(owner.group)),
                None => Ok(()),
            })
            .map_err(ServiceError::io(format!("writing {}", file.display())))?;
        Ok(file)
    }

    /// `program`, to be run in this folder and as its user.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.path).env("HOME", &self.path).env("LC_ALL", "C");
        if let Some(owner) = &self.owner {
            command.uid(owner.user).gid(owner.group);
        }
        command
    }
}

/// Removes a service's folder, and its home where that lies elsewhere.
pub(super) fn clear(folder: &Path) {
    clear_elsewhere(folder);
    let _ = fs::remove_dir_all(folder); // it may not be there
}

/// Removes a home that lies outside `folder`; the log stays.
pub(super) fn clear_elsewhere(folder: &Path) {
    let link = folder.join(NAME);
    if let Ok(elsewhere) = fs::read_link(&link) {
        let _ = fs::remove_dir_all(elsewhere);
        let _ = fs::remove_file(link);
    }
}

fn owner(users: &[&str]) -> Result<Owner, ServiceError> {
    let known = fs::read_to_string("/etc/passwd").map_err(ServiceError::io("reading /etc/passwd"))?;
    let found = users.iter().find_map(|name| {
        let line = known.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2);
        Some(Owner { user: numbers.next()?.parse().ok()?, group: numbers.next()?.parse().ok()? })
    });
    found.ok_or_else(|| ServiceError::Missing {
        missing: format!("a user to run a server as, since it refuses root: {}", users.join(" or ")),
        command: format!("useradd --system {}", users.first().copied().unwrap_or_default()),
    })
}

fn lets_others_pass(folder: &Path) -> bool {
    folder.ancestors().all(|above| fs::metadata(above).is_ok_and(|found| found.permissions().mode() & PASS != 0))
}

fn elsewhere() -> Result<PathBuf, ServiceError> {
    let places = [env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
    let Some(place) = places.iter().find(|place| lets_others_pass(place)) else {
        return Err(ServiceError::io("looking for a folder that a server's own user may enter, such as /tmp")(
            io::ErrorKind::NotFound.into(),
        ));
    };
    let folder = tempfile::Builder::new().prefix("settle-service-").tempdir_in(place);
    folder.map(tempfile::TempDir::keep).map_err(ServiceError::io(format!("creating a folder in {}", place.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_elsewhere_goes_with_the_folder_it_belongs_to() {
        let run = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap().keep();
        fs::write(elsewhere.join("data"), "x").unwrap();
        let folder = run.path().join("postgres");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("log"), "kept").unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.join(NAME)).unwrap();

        clear_elsewhere(&folder);
        assert!(!elsewhere.exists() && folder.join("log").exists());
        clear(&folder);
        assert!(!folder.exists());
    }

    #[test]
    fn a_folder_closed_to_others_anywhere_above_is_not_passed() {
        let top = tempfile::tempdir_in("/tmp").unwrap();
        let inner = top.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(top.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(lets_others_pass(&inner));
        fs::set_permissions(top.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(!lets_others_pass(&inner));
    }
}
