# One git repository, /repository.git, with one commit that is the same every time; then the CGI program on it.
# Runs in a mount namespace of its own: the folder is gone with it.
mount -t tmpfs -o size=64m,mode=700 tmpfs /mnt
cd /mnt
export HOME=/mnt GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=Sinkhole GIT_AUTHOR_EMAIL=sinkhole@sinkhole.example GIT_AUTHOR_DATE='2025-01-01T00:00:00Z'
export GIT_COMMITTER_NAME=Sinkhole GIT_COMMITTER_EMAIL=sinkhole@sinkhole.example GIT_COMMITTER_DATE='2025-01-01T00:00:00Z'
(
  git init --quiet --bare --initial-branch=main repository.git
  cd repository.git
  git config http.receivepack true
  blob=$(echo 'from the sinkhole' | git hash-object -w --stdin)
  tree=$(printf '100644 blob %s\tREADME\n' "$blob" | git mktree)
  git update-ref refs/heads/main "$(git commit-tree "$tree" -m 'The first commit')"
) </dev/null >/dev/null
export GIT_PROJECT_ROOT=/mnt GIT_HTTP_EXPORT_ALL=1
exec git http-backend
