/**
 * The scripts that make shells ask us. What has been typed is passed on as words and never evaluated again: a
 * half-typed `$(rm …)` must not run because somebody pressed Tab.
 */

const bash = `_sallyport() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do COMPREPLY+=("\${line%%$'\\t'*}"); done \\
    < <(sallyport complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _sallyport sallyport
`;

const zsh = `#compdef sallyport
_sallyport() {
  local line
  local -a candidates
  while IFS= read -r line; do candidates+=("\${line/$'\\t'/:}"); done \\
    < <(sallyport complete -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#candidates} )); then _describe sallyport candidates; else _files; fi
}
compdef _sallyport sallyport
`;

const fish = `function __sallyport_complete
    set -l tokens (commandline -opc) (commandline -ct)
    set -l found (sallyport complete -- $tokens[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c sallyport -f -a '(__sallyport_complete)'
`;

export const completionScripts: ReadonlyMap<string, string> = new Map([
  ['bash', bash],
  ['zsh', zsh],
  ['fish', fish],
]);
