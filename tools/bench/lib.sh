# What the comparisons of whole fits share, sourced by them: $moe is the command, $dir their room.

# median is that of the numbers on standard input, a line each.
median() { sort -n | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR+1)/2] : (v[NR/2] + v[NR/2+1]) / 2}'; }

# fitted runs moe with its arguments and adds the CPU seconds, user and system, to $dir/ours. A fit that is doubted,
# exit code 1, is one too.
fitted() {
	local TIMEFORMAT='%U %S'
	{ time "$moe" "$@" --quiet -o "$dir/model.json" >"$dir/out" 2>"$dir/err" || [ $? = 1 ]; } 2>"$dir/time"
	awk '{print $1 + $2}' "$dir/time" >>"$dir/ours"
}

# value is the first number of this name in the model's file.
value() { sed -n 's/^ *"'"$1"'": \([-0-9.e+]*\),*/\1/p' "$dir/model.json" | head -1; }
