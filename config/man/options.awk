# The rows of README's table of options as paragraphs of a manual page.
function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/`/, "", text)
    gsub(/-/, "\\-", text)
    return text
}

function plain(text) {
    text = escaped(text)
    sub(/: see above/, "", text)
    sub(/^ +/, "", text)
    sub(/ +$/, "", text)
    return text
}

/^## / {
    wanted = $0 == "## Options"
}

wanted && /^\| `--/ {
    split($0, cell, " *[|] *")
    n = split(cell[2], word, " ")
    print ".TP"
    printf ".B %s%s\n", escaped(word[1]), (n > 1 ? " \\fI" escaped(word[2]) "\\fR" : "")
    print "\\&" plain(cell[4]) (plain(cell[3]) == "" ? "" : " (default: " plain(cell[3]) ")")
}
