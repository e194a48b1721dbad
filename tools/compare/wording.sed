# What people read that was put in other words after the fit was rebuilt:
# compare.sh --listed applies this to both outputs. OLD's words become NEW's.
s/the moment estimate is not to be had: /there is no moment estimate: /
s/ knows no weights; / takes no weights; /
s/ knows neither intercepts nor a gate or experts that see part of the features; / has no intercepts, constant gate or choice of features for experts and gate; /
s/ of \([0-9]*\) starts ended with an expert that shrank onto a few rows and were set aside/ of \1 starts were degenerate and were set aside: an expert had collapsed onto a few rows/
s/no standard errors: an expert shrank onto a few rows/no standard errors: an expert collapsed onto a few rows/
s/it does not tell what the range of k has come to/it does not say how far the range of k had come/
s/ stands at field \([0-9]*\) already/ is that of field \1 already/
s/Starts race on part of the rows/Starts are screened on part of the rows/
s/The paths are those of the race;/The paths are those of the screening;/
s/; its last words: /; it last printed: /

# The noise level corrected for degrees of freedom, which is new.
/^ *"sigma_corrected": /d
s/; corrected for degrees of freedom [0-9.e-]*//g
s/\(one that misses 0 is drawn full\.\) Sigma[^<]*/\1/
